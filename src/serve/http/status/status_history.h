// serve/http/status/status_history.h - what a service did in the last hour, for the status page.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "serve/protocol/inference_service.h"

namespace emblem {

// Thread-safe. Takes a sample every 10 seconds on a thread of its own, and keeps those of an hour.
class StatusHistory {
 public:
  struct Sample {
    double time_s = 0;  // since 1970
    // Values for the time since the sample before: answered and failed requests per second,
    // percentiles of the latency (0: no request).
    double rate = 0, p50_us = 0, p99_us = 0, failed = 0;
    int64_t resident_bytes = 0;
  };
  static constexpr double kStepSeconds = 10;
  static constexpr size_t kMostSamples = 360;

  // `service` must outlive this.
  explicit StatusHistory(const InferenceService& service);
  ~StatusHistory();
  StatusHistory(const StatusHistory&) = delete;
  StatusHistory& operator=(const StatusHistory&) = delete;

  // {"step_s": 10, "samples": [[time_s, rate, p50_us, p99_us, failed, resident], ...]}, oldest
  // first.
  std::string json() const;

  // Takes a sample at `time_s`, unless there is a later one; the thread calls this.
  void sample(double time_s);

 private:
  struct Counts {
    LatencyHistogram latency;
    uint64_t failed = 0;
  };
  using Key = std::pair<std::string, std::string>;  // model, version

  void run() noexcept;

  const InferenceService& service_;
  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool is_stopped_ = false;
  std::deque<Sample> samples_;
  std::map<Key, Counts> last_;
  double last_time_s_ = 0;  // 0: there was none
  std::thread thread_;
};

}  // namespace emblem
