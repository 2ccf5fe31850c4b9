// core/system/stage_clock.h - how long the parts of repeated work take on the device that does
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/context.h"

namespace emblem {

class Trace;

namespace cuda {
class StageEvents;
}

// One thread uses a clock. On a CPU it is the thread's; on a GPU it is the stream's (events, read
// some steps later, so that nothing waits), and stands still until switch_on, and while work is
// captured in a graph. Profilers see the stages as NVTX ranges of the thread.
class StageClock {
 public:
  // From now on GPU stages are timed too.
  void switch_on(const Context& context);
  // Stages go to `trace` as well, which outlives the clock; null: no longer.
  void trace_to(Trace* trace) { trace_ = trace; }

  // A stage begins; `name` is a literal. Stages do not overlap.
  void begin(const Context& context, const char* name);
  // It ends: its time will be added to `seconds`, which must outlive the clock or the next collect.
  void end(const Context& context, double& seconds);
  // Waits for the stages that have not been added yet.
  void collect();

 private:
  Trace* trace_ = nullptr;
  const char* name_ = "";
  int64_t begin_ns_ = 0;
  std::shared_ptr<cuda::StageEvents> events_;
};

}  // namespace emblem
