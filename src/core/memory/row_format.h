// core/memory/row_format.h - how a row of weights is kept in memory: fp32, 16 bits, or int8 with a
// scale of its own (4 bytes before the weights).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/math/half.h"

namespace emblem {

// Weights of a row in int8: scale * weight.
class Int8Row {
 public:
  explicit Int8Row(const std::byte* row) : weights_(row + sizeof(float)) {
    std::memcpy(&scale_, row, sizeof(float));
  }
  float operator[](int64_t i) const { return scale_ * static_cast<float>(weight(i)); }

  static void write(const float* row, int64_t dim, std::byte* to) {
    constexpr float kLargest = 127.0f;
    float largest = 0.0f;
    for (int64_t i = 0; i < dim; ++i) largest = std::max(largest, std::abs(row[i]));
    const float scale = largest / kLargest;
    const float factor = std::isfinite(1.0f / scale) ? 1.0f / scale : 0.0f;
    std::memcpy(to, &scale, sizeof(float));
    for (int64_t i = 0; i < dim; ++i) {
      const float rounded = std::clamp(std::nearbyint(row[i] * factor), -kLargest, kLargest);
      to[sizeof(float) + static_cast<size_t>(i)] =
          static_cast<std::byte>(std::isnan(rounded) ? int8_t{0} : static_cast<int8_t>(rounded));
    }
  }

 private:
  int8_t weight(int64_t i) const { return static_cast<int8_t>(weights_[i]); }

  float scale_ = 0.0f;
  const std::byte* weights_;
};

struct RowFormat {
  int64_t dim = 0;
  DType type = DType::kF32;

  // A multiple of what a row's address should be one of.
  int64_t bytes() const {
    if (type == DType::kInt8) return (dim + int64_t{sizeof(float)} + 3) / 4 * 4;
    return (dim * size_of(type) + 15) / 16 * 16;
  }
  // Does not write beyond the weights.
  void write(const float* row, std::byte* to) const {
    if (type == DType::kInt8) return Int8Row::write(row, dim, to);
    if (type == DType::kF32)
      std::memcpy(to, row, static_cast<size_t>(dim) * sizeof(float));
    else if (type == DType::kBf16)
      write_narrow<Bf16>(row, to);
    else
      write_narrow<F16>(row, to);
  }
  void read(const std::byte* row, float* to) const {
    if (type == DType::kInt8) {
      const Int8Row weights(row);
      for (int64_t i = 0; i < dim; ++i) to[i] = weights[i];
    } else if (type == DType::kF32) {
      std::memcpy(to, row, static_cast<size_t>(dim) * sizeof(float));
    } else if (type == DType::kBf16) {
      read_narrow<Bf16>(row, to);
    } else {
      read_narrow<F16>(row, to);
    }
  }

 private:
  template <class T>
  void write_narrow(const float* row, std::byte* to) const {
    T* weights = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < dim; ++i) weights[i] = T::from(row[i]);
  }
  template <class T>
  void read_narrow(const std::byte* row, float* to) const {
    const T* weights = reinterpret_cast<const T*>(row);
    for (int64_t i = 0; i < dim; ++i) to[i] = weights[i].to_float();
  }
};

}  // namespace emblem
