#include "train/report/run_clock.h"

#include <algorithm>

namespace emblem {

void RunClock::end_step() {
  step_seconds_.push_back(static_cast<float>(seconds_between(step_begin_, Clock::now())));
}

void RunClock::end_pause(Clock::time_point begin, const char* name) {
  paused_seconds_ += seconds_between(begin, Clock::now());
  if (trace_ == nullptr) return;
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::nanoseconds>(begin.time_since_epoch());
  trace_->add(name, since_boot.count(), trace_now());
}

double RunClock::step_seconds(double quantile) const {
  if (step_seconds_.empty()) return 0;
  std::vector<float> seconds = step_seconds_;
  const auto last = static_cast<double>(seconds.size() - 1);
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(quantile * last + 0.5);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

double RunClock::rows_per_second(int64_t rows) {
  const double now = training_seconds();
  const double rate = static_cast<double>(rows - rate_rows_) / std::max(1e-9, now - rate_begin_);
  rate_begin_ = now;
  rate_rows_ = rows;
  return rate;
}

}  // namespace emblem
