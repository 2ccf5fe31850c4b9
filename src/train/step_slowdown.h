// train/step_slowdown.h - makes training steps slower on purpose, so that tests can see whether the
// benchmarks notice.
#pragma once

#include <chrono>

namespace emblem {

// By how much: EMBLEM_TEST_STEP_SLOWDOWN in percent of a step, as a share; 0 where it is not set.
double step_slowdown_from_environment();

// Stands in the scope of a step, and at its end keeps the CPU busy for `share` of the time since
// it was made.
class StepSlowdown {
 public:
  explicit StepSlowdown(double share) : share_(share) {}
  ~StepSlowdown() {
    if (share_ <= 0) return;
    const auto end = Clock::now() + (Clock::now() - start_) * share_;
    while (Clock::now() < end) continue;
  }
  StepSlowdown(const StepSlowdown&) = delete;
  StepSlowdown& operator=(const StepSlowdown&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double share_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace emblem
