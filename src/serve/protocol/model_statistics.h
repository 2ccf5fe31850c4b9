// serve/protocol/model_statistics.h - what a model version did since it was loaded, as the
// statistics extension counts it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace emblem {

struct DurationCount {
  uint64_t count = 0;
  uint64_t ns = 0;

  void add(uint64_t more_ns) {
    ++count;
    ns += more_ns;
  }
};

struct BatchStatistics {
  DurationCount compute_input, compute_infer, compute_output;
};

// Latencies by powers of 2^(1/4) microseconds, so that percentiles are within 10 %.
class LatencyHistogram {
 public:
  void add(uint64_t ns);
  // What `now` has more than `before`, which it includes.
  void add(const LatencyHistogram& now, const LatencyHistogram& before);
  // The latency in microseconds that a share of `quantile` of the requests did not exceed; 0
  // without any.
  double quantile_us(double quantile) const;
  uint64_t count() const { return count_; }

  static constexpr int kBuckets = 128;  // up to 2^32 us
  // Bucket i counts latencies from 2^(i/4) us on.
  const std::array<uint64_t, kBuckets>& buckets() const { return buckets_; }

 private:
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
};

struct ModelStatistics {
  std::string name;
  std::string version;
  uint64_t last_inference_ms = 0;  // since 1970
  uint64_t inference_count = 0;    // rows
  uint64_t execution_count = 0;    // batches that ran
  // Per request. The compute durations are those of the whole batch that the request was part of.
  DurationCount success, fail, queue, compute_input, compute_infer, compute_output;
  uint64_t rejected = 0, cancelled = 0;  // parts of fail
  uint64_t pending = 0;                  // requests in the queue right now
  double load_seconds = 0;
  uint64_t loaded_ms = 0;                        // since 1970
  LatencyHistogram latency;                      // latency of successful requests
  std::map<uint64_t, BatchStatistics> by_batch;  // batch size -> batches of that size
};

}  // namespace emblem
