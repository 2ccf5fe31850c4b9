#include "train/report/stream_watch.h"

#include <utility>

#include "core/system/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr auto kLong = std::chrono::seconds(10);

}  // namespace

void StreamWatch::set_problem(const std::string& problem) {
  const bool had = std::exchange(has_problem_, !problem.empty());
  if (has_problem_ && !had) log_warn(cat("kafka: topic ", topic_, ": ", problem, "; trying again"));
  if (had && !has_problem_) log_info(cat("kafka: topic ", topic_, " is read again"));
}

void StreamWatch::wait_for_first() {
  if (has_waited_long_ || Clock::now() - begin_ < kLong) return;
  has_waited_long_ = true;
  log_info(cat("kafka: topic ", topic_, " has no new messages; waiting"));
}

}  // namespace emblem
