// bench/train/advice.h - which of the training settings measured to use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct BatchRate {
  int64_t batch = 0;
  double rate = 0;  // samples a second
};

// The smallest batch from which on doubling buys less than 5 %: no larger batch measured is faster
// by 5 % for each doubling to it. None where only the largest batch would be it: there may be more
// to gain.
inline constexpr double kKneeGain = 0.05;
std::optional<int64_t> find_knee(std::vector<BatchRate> rates);

struct TrainAdvice {
  size_t recommended = 0;  // position in the list of results
  std::optional<int64_t> knee;
  std::string reason;  // in words
};

// One for each workload (embedding dimension) among results of `bench train` that has more than one
// setting. Of each combination of precision, threads and placement counts the rate at its knee, or
// at its largest batch where there is none; recommended is the one with the fewest threads, then
// the widest precision, then the least device memory that is within 3 % of the best.
std::vector<TrainAdvice> advise_training(const std::vector<BenchResult>& results);

// The settings of a result as part of a pipeline file, with the reason in a comment.
std::string train_fragment(const BenchResult& result, const std::string& reason);

}  // namespace emblem
