// data/synth/zipf.h - draws from a power law over a table: the value of rank k has a probability
// proportional to k^-exponent. Real keys look like this; exponent 0 is the uniform distribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "core/math/random.h"

namespace emblem {

// Rejection-inversion (Hoermann and Derflinger, 1996): exact, and a draw takes the same time for 10
// and for 10^9 values. A continuous density that is nowhere below the steps of the discrete one is
// inverted; what lies between the two is rejected, which is rare.
class Zipf {
 public:
  // values >= 1, exponent >= 0.
  Zipf(int64_t values, double exponent)
      : values_(static_cast<double>(values)),
        exponent_(exponent),
        low_(integral(1.5) - 1),
        high_(integral(values_ + 0.5)),
        surely_below_(2 - inverse_integral(integral(2.5) - density(2))),
        normalizer_(1 / sum_of_densities()) {}

  // A rank in [0, values), 0 being the most frequent.
  int64_t draw(Random& random) const {
    for (;;) {
      const double uniform = static_cast<double>(random.bits() >> 11) * 0x1p-53;
      const double u = high_ + uniform * (low_ - high_);
      const double x = inverse_integral(u);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, values_);
      if (k - x <= surely_below_ || u >= integral(k + 0.5) - density(k))
        return static_cast<int64_t>(k) - 1;
    }
  }

  double probability(int64_t rank) const {
    return density(static_cast<double>(rank + 1)) * normalizer_;
  }

 private:
  double density(double x) const { return std::exp(-exponent_ * std::log(x)); }

  // The integral of the density from 1 to x: (x^(1 - s) - 1) / (1 - s), written so that s = 1
  // is no special case.
  double integral(double x) const {
    const double log_x = std::log(x);
    const double t = (1 - exponent_) * log_x;
    return log_x * (std::fabs(t) > 1e-8 ? std::expm1(t) / t : 1 + t / 2);
  }
  double inverse_integral(double y) const {
    const double t = std::max(-1.0, y * (1 - exponent_));
    return std::exp(y * (std::fabs(t) > 1e-8 ? std::log1p(t) / t : 1 - t / 2));
  }

  // The head exactly, the tail by the midpoint rule, whose error is far below a float's.
  double sum_of_densities() const {
    const double head = std::min(values_, 1000.0);
    double sum = 0;
    for (double k = 1; k <= head; ++k) sum += density(k);
    return values_ > head ? sum + integral(values_ + 0.5) - integral(head + 0.5) : sum;
  }

  double values_, exponent_;
  double low_, high_;    // the range of the integral
  double surely_below_;  // distances k - x that need no second look
  double normalizer_;
};

// A bijection on [0, values) that scatters frequent ranks over the whole range, as in real tables,
// where small ids are not the frequent ones.
class Scatter {
 public:
  static constexpr int64_t kMostValues = int64_t{1} << 32;  // products stay within 64 bits

  Scatter(int64_t values, uint64_t seed, uint64_t stream) : values_(static_cast<uint64_t>(values)) {
    offset_ = random_bits(seed, stream, 0) % values_;
    // Near the golden section of the range: consecutive ranks land far from each other.
    factor_ = std::max<uint64_t>(
        1, static_cast<uint64_t>(static_cast<double>(values) * 0.6180339887498949));
    while (std::gcd(factor_, values_) != 1) ++factor_;
  }

  int64_t operator()(int64_t rank) const {
    return static_cast<int64_t>((static_cast<uint64_t>(rank) * factor_ + offset_) % values_);
  }

 private:
  uint64_t values_, factor_, offset_;
};

}  // namespace emblem
