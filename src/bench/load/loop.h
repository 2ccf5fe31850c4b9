// bench/load/loop.h - sends requests from several threads and records their latencies.
//
// Closed loop: each worker sends its next request after the answer to the previous one; latency is
// measured from sending. Open loop: each request is due at a time that does not depend on the
// server; latency is measured from that time even if all workers are busy then, which avoids
// coordinated omission.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/result/sample_statistics.h"

namespace emblem {

using LoadClock = std::chrono::steady_clock;

struct LoadOutcome {
  LoadClock::time_point ended;
  std::optional<std::string> error;  // kind of error
};

// Sends request number `request` and waits for the answer. Called by one thread.
using LoadExchange = std::function<LoadOutcome(size_t request)>;

enum class ArrivalKind { kPoisson, kConstant };

// The times, in seconds, at which the requests of an open loop are due. Thread-safe.
class Arrivals {
 public:
  Arrivals(double rate, ArrivalKind kind, uint64_t seed);
  double next();

 private:
  const double rate_;
  const ArrivalKind kind_;
  const uint64_t seed_;
  std::mutex mutex_;
  uint64_t drawn_ = 0;
  double last_ = 0;
};

struct LoadShape {
  double rate = 0;  // requests/s of an open loop; 0: closed loop
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  uint64_t seed = 1;
  int64_t most_requests = 0;  // 0: until stopped
};

struct LoadTally {
  std::vector<LoadSample> samples;        // samples of successful requests
  std::map<std::string, int64_t> errors;  // by kind
};

class LoadLoop {
 public:
  // Starts immediately, with one thread per exchange; they take requests [0, requests) round-robin.
  LoadLoop(const LoadShape& shape, std::vector<LoadExchange> exchanges, size_t requests);
  ~LoadLoop();  // stop()

  double now() const;  // seconds since the start
  // Whether most_requests have been answered.
  bool is_finished() const { return active_ == 0; }
  void wait_until(double seconds) const;  // or until finished
  // Waits for answers in progress.
  void stop();
  // Requests that ended in [from, to).
  LoadTally tally(double from, double to) const;

 private:
  struct Worker {
    LoadExchange exchange;
    mutable std::mutex mutex;
    std::vector<LoadSample> samples;
    std::vector<std::pair<double, std::string>> errors;
    std::thread thread;
  };

  void work(Worker& worker);
  // Returns earlier if the loop stops.
  void sleep_until(LoadClock::time_point time) const;

  const LoadShape shape_;
  const size_t requests_;
  const LoadClock::time_point start_ = LoadClock::now();
  Arrivals arrivals_;
  std::atomic<int64_t> next_{0};
  std::atomic<int> active_{0};
  std::atomic<bool> stopped_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace emblem
