// data/synth/streams.h - what planted truths share: random numbers, of which each use has a stream
// of its own, and logits.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/math/random.h"
#include "data/synth/planted_truth.h"

namespace emblem {

// `Use` is an enumeration whose values fit a byte.
template <class Use>
constexpr uint64_t stream(Use use, uint64_t rest = 0) {
  return static_cast<uint64_t>(use) << 56 | rest;
}

// Mean 0, variance 1, bounded: no key is beyond what a model can learn in a few steps.
inline double effect(uint64_t seed, uint64_t stream, uint64_t index) {
  constexpr double kRoot3 = 1.7320508075688772;
  return kRoot3 * (2.0 * random_uniform(seed, stream, index) - 1.0);
}

// A row's own sequence.
template <class Use>
Random row_random(Use use, uint64_t seed, SynthSplit split, int64_t index) {
  return {seed, stream(use, static_cast<uint64_t>(split) << 48 | static_cast<uint64_t>(index))};
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What is added to the logits to make their mean probability `mean`, by bisection.
inline double bias_for(const std::vector<double>& logits, double mean) {
  double low = -30, high = 30;
  for (int step = 0; step < 60; ++step) {
    const double bias = (low + high) / 2;
    double sum = 0;
    for (const double logit : logits) sum += sigmoid(logit + bias);
    (sum < mean * static_cast<double>(logits.size()) ? low : high) = bias;
  }
  return (low + high) / 2;
}

}  // namespace emblem
