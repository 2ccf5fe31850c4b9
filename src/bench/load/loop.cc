#include "bench/load/loop.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>

#include "core/math/random.h"
#include "emblem/error.h"

namespace emblem {
namespace {

LoadClock::duration seconds(double count) {
  return std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(count));
}

}  // namespace

Arrivals::Arrivals(double rate, ArrivalKind kind, uint64_t seed)
    : rate_(rate), kind_(kind), seed_(seed) {}

double Arrivals::next() {
  std::lock_guard lock(mutex_);
  const uint64_t number = drawn_++;
  // Multiplied, not accumulated: rounding errors do not add up.
  if (kind_ == ArrivalKind::kConstant) return static_cast<double>(number) / rate_;
  const double uniform = static_cast<double>(random_bits(seed_, 3, number) >> 11) * 0x1p-53;
  last_ += -std::log1p(-uniform) / rate_;
  return last_;
}

LoadLoop::LoadLoop(const LoadShape& shape, std::vector<LoadExchange> exchanges, size_t requests)
    : shape_(shape), requests_(requests), arrivals_(shape.rate, shape.arrivals, shape.seed) {
  EMBLEM_REQUIRE(!exchanges.empty() && requests > 0, "a load needs a connection and a request");
  active_ = static_cast<int>(exchanges.size());
  for (LoadExchange& exchange : exchanges) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->exchange = std::move(exchange);
  }
  for (auto& worker : workers_)
    worker->thread = std::thread([this, &worker = *worker] { work(worker); });
}

LoadLoop::~LoadLoop() { stop(); }

double LoadLoop::now() const {
  return std::chrono::duration<double>(LoadClock::now() - start_).count();
}

void LoadLoop::sleep_until(LoadClock::time_point time) const {
  constexpr auto kLongest = std::chrono::milliseconds(50);
  while (!stopped_ && LoadClock::now() < time)
    std::this_thread::sleep_until(std::min(time, LoadClock::now() + kLongest));
}

void LoadLoop::wait_until(double until) const {
  constexpr auto kLongest = std::chrono::milliseconds(10);
  while (!is_finished() && now() < until)
    std::this_thread::sleep_for(std::min<LoadClock::duration>(kLongest, seconds(until - now())));
}

void LoadLoop::work(Worker& worker) {
  prctl(PR_SET_TIMERSLACK, 1UL);  // the default lets sleeping threads wake up 50 us late
  while (!stopped_) {
    const int64_t number = next_++;
    if (shape_.most_requests > 0 && number >= shape_.most_requests) break;
    LoadClock::time_point due = LoadClock::now();
    if (shape_.rate > 0) {
      due = start_ + seconds(arrivals_.next());
      sleep_until(due);
      if (stopped_) break;
    }
    const LoadClock::time_point sent = LoadClock::now();
    const LoadOutcome outcome = worker.exchange(static_cast<size_t>(number) % requests_);
    const auto since = [](LoadClock::time_point end, LoadClock::time_point begin) {
      return std::chrono::duration<double>(end - begin).count();
    };
    const double ended = since(outcome.ended, start_);
    std::lock_guard lock(worker.mutex);
    if (outcome.error)
      worker.errors.emplace_back(ended, *outcome.error);
    else
      worker.samples.push_back({ended, since(outcome.ended, due), since(sent, due)});
  }
  --active_;
}

void LoadLoop::stop() {
  stopped_ = true;
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

LoadTally LoadLoop::tally(double from, double to) const {
  LoadTally tally;
  for (const auto& worker : workers_) {
    std::lock_guard lock(worker->mutex);
    for (const LoadSample& sample : worker->samples) {
      if (sample.ended >= from && sample.ended < to) tally.samples.push_back(sample);
    }
    for (const auto& [ended, kind] : worker->errors) {
      if (ended >= from && ended < to) ++tally.errors[kind];
    }
  }
  return tally;
}

}  // namespace emblem
