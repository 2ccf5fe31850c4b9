// core/math/half.h - types of numbers; 16-bit floats as storage: conversions written once for CPU
// and CUDA.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/device/host_device.h"

namespace emblem {

enum class DType : uint8_t { kF32, kF16, kBf16, kInt8 };

constexpr int64_t size_of(DType type) {
  return type == DType::kF32 ? 4 : type == DType::kInt8 ? 1 : 2;
}
constexpr const char* name_of(DType type) {
  constexpr const char* kNames[] = {"fp32", "fp16", "bf16", "int8"};
  return kNames[static_cast<size_t>(type)];
}

// The type of that name, if there is one.
constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBf16, DType::kInt8})
    if (name == name_of(type)) return type;
  return std::nullopt;
}

namespace detail {
EMBLEM_HD inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
EMBLEM_HD inline float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
}  // namespace detail

// Round to nearest even; NaN stays NaN.
struct Bf16 {
  uint16_t bits;
  EMBLEM_HD static Bf16 from(float value) {
    const uint32_t b = detail::float_bits(value);
    if ((b & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((b >> 16) | 0x40u)};
    return {static_cast<uint16_t>((b + 0x7fffu + ((b >> 16) & 1u)) >> 16)};
  }
  EMBLEM_HD float to_float() const { return detail::bits_float(static_cast<uint32_t>(bits) << 16); }
};

struct F16 {
  uint16_t bits;
  EMBLEM_HD static F16 from(float value) {
    const uint32_t b = detail::float_bits(value);
    const uint32_t sign = (b >> 16) & 0x8000u;
    const uint32_t magnitude = b & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};   // NaN
    if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // overflow
    if (magnitude < 0x38800000u) {  // subnormal: let the float unit do the rounding
      const float scaled = detail::bits_float(magnitude) + 0.5f;
      return {static_cast<uint16_t>(sign | (detail::float_bits(scaled) - 0x3f000000u))};
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
  }
  EMBLEM_HD float to_float() const {
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu) return detail::bits_float(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * (1.0f / 16777216.0f);
      return sign ? -magnitude : magnitude;
    }
    return detail::bits_float(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
};

}  // namespace emblem
