// Latency targets in a simulated server: random arrivals, a given service time, no real clock.
#include "serve/engine/batching/slo_batching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/math/random.h"
#include "serve/engine/batching/batch_queue.h"

namespace emblem {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using Time = BatchQueue::Time;
constexpr Time kNever = Time::max();

// A batch takes 200 us and 5 us for each row, give or take a tenth; one in 2000 takes three times
// as long. One engine can thus answer almost 200,000 requests of a row in a second.
struct Service {
  Random random{3};

  nanoseconds time(int64_t rows) {
    const double us = 200.0 + 5.0 * static_cast<double>(rows);
    const double noise = random.below(2000) == 0 ? 3.0 : 0.9 + 0.2 * random.uniform();
    return nanoseconds(static_cast<int64_t>(us * noise * 1e3));
  }
};
constexpr double kSaturation = 200e3;  // requests a second

struct Outcome {
  double p99_us = 0;
  double mean_batch = 0;    // requests
  double busy_us_each = 0;  // time of the engine for a request
  double mean_us = 0;       // latency
};

// Requests of one row that arrive at random, `rate` a second, on average.
class Simulation {
 public:
  Simulation(BatchOptions options, double rate)
      : target_(SloBatching::target_here(options.slo_p99)),
        rate_(rate),
        queue_(std::move(options)) {}

  Outcome run(int requests) {
    now_ = start_;
    Time arrival = start_ + gap();
    int arrived = 0;
    Time engine_free = kNever;  // when the batch that runs is done
    while (answered_ < requests) {
      if (engine_free == kNever && (look_ || now_ >= wake_)) engine_free = start_batch();
      Time next = engine_free == kNever ? wake_ : engine_free;
      if (arrived < requests + 1000) next = std::min(next, arrival);
      now_ = std::max(now_, next);
      if (arrived < requests + 1000 && now_ >= arrival) {
        push();
        ++arrived;
        arrival += gap();
      }
      if (now_ >= engine_free) {
        finish_batch();
        engine_free = kNever;
        look_ = true;
      }
    }
    return outcome();
  }

 private:
  nanoseconds gap() {
    const double uniform = std::max(1e-12, 1.0 - static_cast<double>(arrivals_.uniform()));
    return nanoseconds(static_cast<int64_t>(-std::log(uniform) / rate_ * 1e9));
  }
  void push() {
    BatchQueue::Entry entry{.request = std::make_unique<InferRequest>(), .rows = 1};
    entry.request->arrived = now_;
    if (queue_.push(entry, now_)) look_ = true;
  }
  Time start_batch() {
    BatchQueue::Next next;
    queue_.next(now_, false, next);
    wake_ = next.wake.value_or(kNever);
    look_ = false;
    if (next.batch.empty()) return kNever;
    batch_ = std::move(next.batch);
    started_ = now_;
    return now_ + service_.time(static_cast<int64_t>(batch_.size()));
  }
  void finish_batch() {
    BatchQueue::Measured measured{.rows = static_cast<int64_t>(batch_.size()),
                                  .requests = static_cast<int64_t>(batch_.size()),
                                  .time = now_ - started_};
    for (const auto& entry : batch_) {
      const nanoseconds latency = now_ - entry.request->arrived;
      if (latency > target_) ++measured.late;
      latencies_us_.push_back(static_cast<double>(latency.count()) / 1e3);
    }
    queue_.finished(measured);
    answered_ += static_cast<int>(batch_.size());
    ++batches_;
    busy_ += measured.time;
  }
  Outcome outcome() {
    // What it does once it knows the model: without the first tenth.
    std::vector<double> late(latencies_us_.begin() + answered_ / 10, latencies_us_.end());
    std::sort(late.begin(), late.end());
    double sum = 0;
    for (const double us : late) sum += us;
    return {.p99_us = late[late.size() * 99 / 100],
            .mean_batch = static_cast<double>(answered_) / batches_,
            .busy_us_each = static_cast<double>(busy_.count()) / 1e3 / answered_,
            .mean_us = sum / static_cast<double>(late.size())};
  }

  const nanoseconds target_;
  const double rate_;
  Random arrivals_{7};
  Service service_;
  BatchQueue queue_;
  const Time start_{1h};
  Time now_, started_;
  Time wake_ = kNever;  // when to ask the queue again, ...
  bool look_ = true;    // ... or now
  std::vector<BatchQueue::Entry> batch_;
  std::vector<double> latencies_us_;
  int answered_ = 0, batches_ = 0;
  nanoseconds busy_{0};
};

Outcome with_target(microseconds target, double rate, int requests = 100'000) {
  return Simulation({.dynamic = true, .max_batch_rows = 4096, .slo_p99 = target}, rate)
      .run(requests);
}
Outcome with_delay(microseconds delay, double rate) {
  return Simulation({.dynamic = true, .max_batch_rows = 4096, .max_delay = delay}, rate)
      .run(100'000);
}

TEST(SloBatchingTest, KeepsP99WithinTheTargetAtFourFifthsOfTheLoad) {
  for (const microseconds target : {microseconds(4000), microseconds(8000), microseconds(20000)}) {
    const Outcome outcome = with_target(target, 0.8 * kSaturation);
    EXPECT_LE(outcome.p99_us, static_cast<double>(target.count())) << target.count();
    // ... and uses the time that it has.
    EXPECT_GE(outcome.p99_us, 0.4 * static_cast<double>(target.count())) << target.count();
  }
}

TEST(SloBatchingTest, KeepsP99WithinTheTargetAtAnyLoadBelow) {
  for (const double share : {0.05, 0.2, 0.5, 0.7}) {
    const Outcome outcome = with_target(8000us, share * kSaturation);
    EXPECT_LE(outcome.p99_us, 8000) << share;
  }
}

TEST(SloBatchingTest, NeedsLessOfTheEngineThanFixedDelaysThatMeetTheTarget) {
  const microseconds target = 8000us;
  for (const double share : {0.3, 0.8}) {
    const Outcome slo = with_target(target, share * kSaturation);
    int met = 0;
    for (const microseconds delay : {0us, 500us, 1000us, 2000us, 5000us, 10000us}) {
      const Outcome fixed = with_delay(delay, share * kSaturation);
      if (fixed.p99_us > 0.7 * static_cast<double>(target.count())) continue;  // T
      ++met;
      EXPECT_LE(slo.busy_us_each, 1.01 * fixed.busy_us_each)
          << share << " of the load, delay " << delay.count();
      EXPECT_GE(slo.mean_batch, 0.95 * fixed.mean_batch)
          << share << " of the load, delay " << delay.count();
    }
    EXPECT_GT(met, 0);
    const Outcome none = with_delay(0us, share * kSaturation);
    EXPECT_GT(slo.mean_batch, 1.5 * none.mean_batch);
    EXPECT_LT(slo.busy_us_each, 0.95 * none.busy_us_each);
  }
}

TEST(SloBatchingTest, DoesNotWaitWhereNoOtherRequestComes) {
  // On average 20 ms lie between two requests.
  const Outcome outcome = with_target(8000us, 50, 2000);
  EXPECT_LT(outcome.mean_us, 400);
  EXPECT_LT(outcome.mean_batch, 1.1);
}

TEST(SloBatchingTest, ATargetThatCannotBeMetCostsNoThroughput) {
  // A batch of one takes longer.
  const Outcome outcome = with_target(150us, 0.8 * kSaturation);
  const Outcome none = with_delay(0us, 0.8 * kSaturation);
  EXPECT_LT(outcome.p99_us, 1.1 * none.p99_us);
}

}  // namespace
}  // namespace emblem
