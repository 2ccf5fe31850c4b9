#include "emblem/runtime.h"

#include "runtime/runtime.h"

namespace emblem::api {
namespace {

LogSettings settings_of(LogLevel lowest) {
  return {.info = lowest <= LogLevel::kInfo,
          .warning = lowest <= LogLevel::kWarning,
          .error = true,
          .verbose_level = lowest == LogLevel::kDebug ? 1u : 0u};
}

emblem::RuntimeOptions to_options(const RuntimeOptions& options) {
  emblem::RuntimeOptions made{.log = settings_of(options.lowest)};
  if (options.log)
    made.log_sink = [sink = options.log](emblem::LogLevel level, const std::string& line) {
      sink(static_cast<LogLevel>(level), line);
    };
  if (!options.program.empty()) made.orc_reader = {options.program, kOrcReaderArgument};
  return made;
}

}  // namespace

struct Runtime::State {
  const emblem::Runtime runtime;
};

Runtime::Runtime(const RuntimeOptions& options)
    : state_(new State{emblem::Runtime(to_options(options))}) {}
Runtime::~Runtime() = default;

void Runtime::finalize_stores() { emblem::Runtime::finalize_stores(); }

}  // namespace emblem::api
