// train/step_slowdown.h - makes training steps slower on purpose, so that tests can see whether the
// benchmarks notice.
#pragma once

namespace emblem {

// By how much: EMBLEM_TEST_STEP_SLOWDOWN in percent of a step, as a share; 0 where it is not set.
double step_slowdown_from_environment();

// Stands in the scope of a step, and at its end keeps the CPU busy for `share` of the CPU time that
// the thread has taken since: as if the step had that much more work to do, on a busy machine too.
class StepSlowdown {
 public:
  explicit StepSlowdown(double share);
  ~StepSlowdown();
  StepSlowdown(const StepSlowdown&) = delete;
  StepSlowdown& operator=(const StepSlowdown&) = delete;

 private:
  double share_;
  double start_ = 0;  // seconds of CPU time
};

}  // namespace emblem
