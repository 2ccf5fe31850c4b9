#include "data/source/retry.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "core/system/warn_once.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kAttempts = 8;

double first_delay_seconds() {
#if defined(EMBLEM_TEST_HOOKS)
  if (const char* milliseconds = std::getenv("EMBLEM_TEST_RETRY_MS"))
    return std::atof(milliseconds) / 1e3;
#endif
  return 0.25;
}

// A factor in [0.5, 1).
double jitter() {
  thread_local std::minstd_rand random(std::random_device{}());
  return 0.5 + 0.5 * std::generate_canonical<double, 32>(random);
}

void wait(const RequestCounters& counters, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  while (!counters.stopped && Clock::now() < until)
    std::this_thread::sleep_for(
        std::min<Clock::duration>(until - Clock::now(), std::chrono::milliseconds(20)));
}

struct Waiting {
  explicit Waiting(StoreActivity& of) : activity(of) { ++activity.waiting; }
  ~Waiting() { --activity.waiting; }
  StoreActivity& activity;
};

}  // namespace

void with_retries(RequestCounters& counters, const std::function<void()>& before,
                  const std::function<void()>& attempt) {
  const Waiting waiting(*counters.activity);
  double delay = first_delay_seconds();
  for (int number = 1;; ++number) {
    if (before) before();
    ++counters.requests;
    try {
      attempt();
      ++counters.activity->answers;
      return;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      if (counters.stopped) throw;
      if (number == kAttempts)
        throw Error(ErrorCode::kUnavailable, cat(error.what(), " (", kAttempts, " attempts)"));
      if (number > 1)
        warn_once("trying again", cat(error.what(), "; trying again"), std::chrono::minutes(1));
    }
    ++counters.retries;
    wait(counters, delay * jitter());
    delay = std::min(2 * delay, 10.0);
  }
}

}  // namespace emblem
