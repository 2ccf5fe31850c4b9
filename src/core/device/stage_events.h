// core/device/stage_events.h - stages of the work on a stream, timed by events. CUDA builds only.
#pragma once

#include <deque>
#include <vector>

#include "core/device/context.h"

struct CUevent_st;

namespace emblem::cuda {

// One thread uses it; see core/system/stage_clock.h for the meaning of its functions.
class StageEvents {
 public:
  StageEvents() = default;
  ~StageEvents();
  StageEvents(const StageEvents&) = delete;
  StageEvents& operator=(const StageEvents&) = delete;

  void begin(const Context& context);
  void end(const Context& context, double& seconds);
  void collect();

 private:
  struct Stage {
    CUevent_st *begin, *end;
    double* seconds;
  };
  CUevent_st* record(const Context& context);
  void read_oldest();

  std::deque<Stage> pending_;
  std::vector<CUevent_st*> free_, all_;
  CUevent_st* begin_ = nullptr;  // begin of the stage that has not ended
};

}  // namespace emblem::cuda
