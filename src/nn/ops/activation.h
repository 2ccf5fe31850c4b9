// nn/ops/activation.h - the activation functions, written once for every op and device.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/host_device.h"
#include "nn/graph.h"

namespace emblem {

// e^x to about 2 units in the last place over the range of float, without branches or calls, so
// that loops over it are vectorized.
EMBLEM_HD inline float exp_inline(float x) {
  const float bounded = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);  // NaN stays NaN
  const float shifted = bounded * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  memcpy(&bits, &shifted, 4);
  bits = static_cast<int32_t>((static_cast<uint32_t>(bits) << 23) + 0x3f800000u);  // 2^n
  float power;
  memcpy(&power, &bits, 4);
  return p * power;
}

EMBLEM_HD inline float sigmoid_inline(float x) {
  // From the negative side, where e^x cannot overflow.
  const float e = exp_inline(x < 0.0f ? x : -x);
  const float small = e / (1.0f + e);
  return x < 0.0f ? small : 1.0f - small;
}

// Each has the function itself and its derivative, written in terms of the output where kFromOutput
// (the input then need not be kept) and of the input elsewhere.
namespace activations {

struct None {
  static constexpr bool kFromOutput = true;
  EMBLEM_HD static float value(float x) { return x; }
  EMBLEM_HD static float slope(float) { return 1.0f; }
};
struct Relu {
  static constexpr bool kFromOutput = true;
  EMBLEM_HD static float value(float x) { return x < 0.0f ? 0.0f : x; }
  EMBLEM_HD static float slope(float y) { return y > 0.0f ? 1.0f : 0.0f; }
};
struct LeakyRelu {
  static constexpr bool kFromOutput = true;
  static constexpr float kNegativeSlope = 0.01f;
  EMBLEM_HD static float value(float x) { return x < 0.0f ? kNegativeSlope * x : x; }
  EMBLEM_HD static float slope(float y) { return y > 0.0f ? 1.0f : kNegativeSlope; }
};
struct Sigmoid {
  static constexpr bool kFromOutput = true;
  EMBLEM_HD static float value(float x) { return sigmoid_inline(x); }
  EMBLEM_HD static float slope(float y) { return y * (1.0f - y); }
};
struct Tanh {
  static constexpr bool kFromOutput = true;
  EMBLEM_HD static float value(float x) {
    // Near 0 the quotient would lose digits to cancellation; there the series is exact enough.
    const float magnitude = x < 0.0f ? -x : x;
    const float e = exp_inline(-2.0f * magnitude);
    const float large = (1.0f - e) / (1.0f + e);
    const float s = x * x;
    const float small =
        magnitude * (1.0f + s * (-0.333333333f + s * (0.133333333f + s * -0.0539682540f)));
    const float result = magnitude < 0.15f ? small : large;
    return x < 0.0f ? -result : result;
  }
  EMBLEM_HD static float slope(float y) { return 1.0f - y * y; }
};
struct Gelu {
  static constexpr bool kFromOutput = false;
  EMBLEM_HD static float value(float x) { return 0.5f * x * (1.0f + erff(x * 0.707106781f)); }
  EMBLEM_HD static float slope(float x) {
    return 0.5f * (1.0f + erff(x * 0.707106781f)) + x * 0.398942280f * exp_inline(-0.5f * x * x);
  }
};
struct Silu {
  static constexpr bool kFromOutput = false;
  EMBLEM_HD static float value(float x) { return x * sigmoid_inline(x); }
  EMBLEM_HD static float slope(float x) {
    const float s = sigmoid_inline(x);
    return s * (1.0f + x * (1.0f - s));
  }
};

}  // namespace activations

// Calls body with the struct of `activation`, so that loops are compiled for each.
template <class Body>
void with_activation(Activation activation, Body&& body) {
  switch (activation) {
    case Activation::kNone:
      return body(activations::None{});
    case Activation::kRelu:
      return body(activations::Relu{});
    case Activation::kSigmoid:
      return body(activations::Sigmoid{});
    case Activation::kTanh:
      return body(activations::Tanh{});
    case Activation::kGelu:
      return body(activations::Gelu{});
    case Activation::kSilu:
      return body(activations::Silu{});
    case Activation::kLeakyRelu:
      return body(activations::LeakyRelu{});
  }
}

// Whether an op that keeps only its output can go back through the activation.
bool invertible_from_output(Activation activation);

const char* name_of(Activation activation);

}  // namespace emblem
