#include "train/report/step_slowdown.h"

#if defined(EMBLEM_TEST_HOOKS)

#include <time.h>

#include <cstdlib>

namespace emblem {
namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The share of a step's time to add.
double slowdown() {
  static const double share = [] {
    const char* percent = std::getenv("EMBLEM_TEST_STEP_SLOWDOWN");
    return percent == nullptr ? 0.0 : std::atof(percent) / 100;
  }();
  return share;
}

}  // namespace

StepSlowdown::StepSlowdown() {
  if (slowdown() > 0) start_ = thread_cpu_seconds();
}

StepSlowdown::~StepSlowdown() {
  if (slowdown() <= 0) return;
  const double end = thread_cpu_seconds() + slowdown() * (thread_cpu_seconds() - start_);
  while (thread_cpu_seconds() < end) continue;
}

}  // namespace emblem

#endif
