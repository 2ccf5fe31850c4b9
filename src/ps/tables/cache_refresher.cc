#include "ps/tables/cache_refresher.h"

#include <algorithm>
#include <chrono>

#include "core/log.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point in_seconds(double seconds) {
  constexpr double kFarAway = 1e9;  // further than clocks can count
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(seconds, kFarAway)));
}

}  // namespace

CacheRefresher::CacheRefresher(std::vector<Plan> plans,
                               std::function<void(const std::string&)> refresh)
    : plans_(std::move(plans)), refresh_(std::move(refresh)), thread_([this] { work(); }) {}

CacheRefresher::~CacheRefresher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void CacheRefresher::work() {
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
      refresh_(plan.model);
    } catch (const Error& error) {
      log_warn(cat("model ", plan.model, ": its cache cannot be refreshed: ", error.what()));
    }
    *next = in_seconds(plan.interval_s);
    lock.lock();
  }
}

}  // namespace emblem
