// train/report/step_slowdown.h - a test hook that makes training steps slower, to test whether
// benchmarks detect it.
#pragma once

namespace emblem {

#if defined(EMBLEM_TEST_HOOKS)

// Lives in the scope of a step: at its end keeps the CPU busy for EMBLEM_TEST_STEP_SLOWDOWN
// percent of the CPU time that the thread has used since the beginning, as if the step had that
// much more work to do. Does nothing where the variable is not set.
class StepSlowdown {
 public:
  StepSlowdown();
  ~StepSlowdown();
  StepSlowdown(const StepSlowdown&) = delete;
  StepSlowdown& operator=(const StepSlowdown&) = delete;

 private:
  double start_ = 0;  // seconds of CPU time
};

#else

class StepSlowdown {
 public:
  StepSlowdown() {}  // not trivial, so that an unused object is no warning
};

#endif

}  // namespace emblem
