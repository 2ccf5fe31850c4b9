// core/stage_clock.h - how long the parts of repeated work take on the device that does them.
#pragma once

#include <chrono>
#include <memory>

#include "core/context.h"

namespace emblem {

namespace cuda {
class StageEvents;
}

// One thread uses a clock. On a CPU it is the thread's; on a GPU it is the stream's (events, read
// some steps later, so that nothing waits), and stands still until switch_on, and while work is
// captured in a graph.
class StageClock {
 public:
  // From now on GPU stages are timed too.
  void switch_on(const Context& context);
  bool is_on(const Context& context) const;

  // The next stage begins here.
  void start(const Context& context);
  // The stage that began at the last start or end ends here: its time will be added to `seconds`,
  // which must outlive the clock or the next collect.
  void end(const Context& context, double& seconds);
  // Waits for the stages that have not been added yet.
  void collect(const Context& context);

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::shared_ptr<cuda::StageEvents> events_;
};

}  // namespace emblem
