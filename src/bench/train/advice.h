// bench/train/advice.h - recommends one of the measured training settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct BatchRate {
  int64_t batch = 0;
  double rate = 0;  // samples/s
};

// The knee of the curve: the smallest batch such that no larger one measured is faster by 5 % per
// doubling. None if only the largest batch qualifies: larger batches may be faster still.
inline constexpr double kKneeGain = 0.05;
std::optional<int64_t> find_knee(std::vector<BatchRate> rates);

struct TrainAdvice {
  size_t recommended = 0;  // index into the list of results
  std::optional<int64_t> knee;
  std::string reason;  // as text
};

// One recommendation per workload (embedding dimension) that was measured with more than one
// setting. A combination of precision, threads and placement is rated at its knee, or at its
// largest batch if it has none. Recommended is, among those within 3 % of the best, the one with
// the fewest threads, then the widest precision, then the least device memory.
std::vector<TrainAdvice> advise_training(const std::vector<BenchResult>& results);

// The settings of a result as a fragment of a pipeline file, with the reason in a comment.
std::string train_fragment(const BenchResult& result, const std::string& reason);

}  // namespace emblem
