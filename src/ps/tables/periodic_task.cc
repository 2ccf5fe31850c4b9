#include "ps/tables/periodic_task.h"

#include <algorithm>
#include <chrono>

#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point in_seconds(double seconds) {
  constexpr double kFarAway = 1e9;  // further than clocks can count
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(seconds, kFarAway)));
}

std::vector<std::string> names_of(const char* purpose,
                                  const std::vector<PeriodicTask::Plan>& plans) {
  std::vector<std::string> names;
  for (const PeriodicTask::Plan& plan : plans) names.push_back(cat(purpose, " of ", plan.subject));
  return names;
}

}  // namespace

PeriodicTask::PeriodicTask(const char* purpose, std::vector<Plan> plans,
                           std::function<void(const std::string&)> act)
    : plans_(std::move(plans)),
      names_(names_of(purpose, plans_)),
      act_(std::move(act)),
      thread_(start_thread(purpose, [this] { work(); })) {}

PeriodicTask::~PeriodicTask() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void PeriodicTask::work() noexcept {
  std::vector<Clock::time_point> times;
  for (const Plan& plan : plans_)
    times.push_back(in_seconds(plan.delay_s > 0 ? plan.delay_s : plan.interval_s));
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto next = std::min_element(times.begin(), times.end());
    if (stopping_.wait_until(lock, *next, [&] { return stop_; })) return;
    lock.unlock();
    const Plan& plan = plans_[static_cast<size_t>(next - times.begin())];
    try {
      act_(plan.subject);
    } catch (...) {
      log_caught(names_[static_cast<size_t>(next - times.begin())].c_str());
    }
    *next = in_seconds(plan.interval_s);
    lock.lock();
  }
}

}  // namespace emblem
