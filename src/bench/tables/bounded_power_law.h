// bench/tables/bounded_power_law.h - the key distribution of dynamicemb's benchmark.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/math/random.h"

namespace emblem {

// Keys in [1, rows): key k is the k-th most frequent, with a probability that falls as k^-alpha.
// Formula and single-precision constants are those of the published generator, which is undefined
// for alpha = 1: there the limit is used.
class BoundedPowerLaw {
 public:
  BoundedPowerLaw(int64_t rows, double alpha)
      : rows_(rows),
        gamma_(static_cast<float>(1.0 - alpha)),
        slope_(static_cast<float>(std::pow(static_cast<double>(rows), gamma_)) - 1.0f) {}

  int64_t operator()(uint64_t seed, uint64_t stream, uint64_t index) const {
    const double x = static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1p-53;
    const double y = gamma_ == 0.0f ? std::pow(static_cast<double>(rows_), x)
                                    : std::pow(x * static_cast<double>(slope_) + 1.0,
                                               static_cast<double>(1.0f / gamma_));
    return std::min(static_cast<int64_t>(y), rows_ - 1);
  }

 private:
  int64_t rows_;
  float gamma_, slope_;
};

}  // namespace emblem
