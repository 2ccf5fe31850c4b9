#include "runtime/runtime.h"

#include <atomic>

#include "core/system/warn_once.h"
#include "data/source/objects/object_store.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::atomic<const Runtime*> the_runtime{nullptr};

}  // namespace

Runtime::Only::Only(const Runtime* runtime) {
  const Runtime* none = nullptr;
  EMBLEM_REQUIRE(the_runtime.compare_exchange_strong(none, runtime),
                 "a process has one Runtime at a time, and it has one already");
}

Runtime::Only::~Only() { the_runtime = nullptr; }

Runtime::Runtime(RuntimeOptions options)
    : only_(this),
      options_(std::move(options)),
      log_before_(log_settings()),
      orc_readers_(options_.orc_reader) {
  forget_warnings();
  set_log_settings(options_.log.value_or(log_settings_of_environment()));
  set_log_sink(options_.log_sink);
  const std::string certificates = system_certificates();
  if (options_.set_variable && !certificates.empty() &&
      environment_variable(kCertificatesVariable).empty())
    options_.set_variable(kCertificatesVariable, certificates);
}

Runtime::~Runtime() {
  set_log_sink({});
  set_log_settings(log_before_);
}

const Runtime& Runtime::current() {
  const Runtime* runtime = the_runtime;
  if (runtime == nullptr) throw Error(ErrorCode::kInternal, "this process has no Runtime");
  return *runtime;
}

void Runtime::finalize_stores() { emblem::finalize_stores(); }

WatchSettings Runtime::watch_settings() const {
  WatchSettings settings;
  settings.on_stuck = options_.on_stuck_rank;
  settings.stuck_seconds = options_.stuck_seconds;
  return settings;
}

}  // namespace emblem
