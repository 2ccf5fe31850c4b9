#include "core/stage_clock.h"

#include "core/stage_events.h"

namespace emblem {

using Clock = std::chrono::steady_clock;

bool StageClock::is_on(const Context& context) const {
  return context.device == Device::kCpu || events_ != nullptr;
}

void StageClock::switch_on(const Context& context) {
  dispatch(
      context.device, [] {},
      [&] {
        if (!events_) events_ = std::make_shared<cuda::StageEvents>();
      });
}

void StageClock::start(const Context& context) {
  if (!is_on(context)) return;
  dispatch(
      context.device, [&] { last_ = Clock::now(); }, [&] { events_->start(context); });
}

void StageClock::end(const Context& context, double& seconds) {
  if (!is_on(context)) return;
  dispatch(
      context.device,
      [&] {
        const auto now = Clock::now();
        seconds += std::chrono::duration<double>(now - last_).count();
        last_ = now;
      },
      [&] { events_->end(context, seconds); });
}

void StageClock::collect(const Context& context) {
  if (!is_on(context)) return;
  dispatch(
      context.device, [] {}, [&] { events_->collect(); });
}

}  // namespace emblem
