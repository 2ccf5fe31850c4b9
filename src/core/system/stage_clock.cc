#include "core/system/stage_clock.h"

#include "core/device/gpu_activity.h"
#include "core/device/stage_events.h"
#include "core/system/trace.h"

namespace emblem {

void StageClock::switch_on(const Context& context) {
  dispatch(
      context.device, [] {},
      [&] {
        if (!events_) events_ = std::make_shared<cuda::StageEvents>();
      });
}

void StageClock::begin(const Context& context, const char* name) {
  name_ = name;
  begin_ns_ = trace_now();
  dispatch(
      context.device, [] {},
      [&] {
        cuda::push_range(name);
        if (events_) events_->begin(context);
      });
}

void StageClock::end(const Context& context, double& seconds) {
  const int64_t now_ns = trace_now();
  if (trace_ != nullptr) trace_->add(name_, begin_ns_, now_ns);
  dispatch(
      context.device, [&] { seconds += static_cast<double>(now_ns - begin_ns_) * 1e-9; },
      [&] {
        if (events_) events_->end(context, seconds);
        cuda::pop_range();
      });
}

void StageClock::collect() {
  dispatch(
      events_ ? Device::kCuda : Device::kCpu, [] {}, [&] { events_->collect(); });
}

}  // namespace emblem
