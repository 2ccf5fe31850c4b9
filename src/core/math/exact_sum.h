// core/math/exact_sum.h - a sum of doubles that does not depend on their order: it is kept as an
// integer.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace emblem {

// Up to 2^31 numbers. Two sums are added limb by limb, in any order, in other processes, too.
class ExactSum {
 public:
  void add(double value) {
    if (!std::isfinite(value)) {
      ++limbs_[kNotFinite];
      return;
    }
    int exponent = 0;
    // value = digits * 2^exponent, without rounding
    const auto digits = static_cast<int64_t>(std::ldexp(std::frexp(value, &exponent), kDigits));
    const int place = exponent - kDigits + kUnit;
    const int limb = place / kLimbBits, shift = place % kLimbBits;
    const bool negative = digits < 0;
    auto rest = static_cast<unsigned __int128>(negative ? -digits : digits) << shift;
    for (int i = limb; rest != 0; ++i, rest >>= kLimbBits) {
      const auto part = static_cast<int64_t>(rest & 0xffffffffu);
      limbs_[static_cast<size_t>(i)] += negative ? -part : part;
    }
  }
  void add(const ExactSum& other) {
    for (size_t i = 0; i < limbs_.size(); ++i) limbs_[i] += other.limbs_[i];
  }

  // NaN where one of the numbers was not finite.
  double value() const {
    if (limbs_[kNotFinite] != 0) return std::numeric_limits<double>::quiet_NaN();
    std::array<int64_t, kNotFinite> normal{};
    int64_t carry = 0;
    for (size_t i = 0; i < kNotFinite; ++i) {
      const int64_t sum = limbs_[i] + carry;
      const bool last = i + 1 == kNotFinite;  // has the sign
      normal[i] = last ? sum : (sum & 0xffffffff);
      carry = sum >> kLimbBits;
    }
    if (normal.back() < 0) {
      ExactSum opposite;
      for (size_t i = 0; i < kNotFinite; ++i) opposite.limbs_[i] = -limbs_[i];
      return -opposite.value();
    }
    double total = 0.0;
    for (size_t i = kNotFinite; i-- > 0;)
      total += std::ldexp(static_cast<double>(normal[i]), static_cast<int>(i) * kLimbBits - kUnit);
    return total;
  }

  std::span<int64_t> limbs() { return limbs_; }

  static constexpr int kLimbBits = 32;
  static constexpr int kUnit = 1152;        // the lowest limb counts 2^-kUnit
  static constexpr size_t kNotFinite = 70;  // the limb that counts what is not a number

 private:
  static constexpr int kDigits = 53;

  std::array<int64_t, kNotFinite + 1> limbs_{};
};

}  // namespace emblem
