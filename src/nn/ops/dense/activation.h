// nn/ops/dense/activation.h - the activation functions, written once for every op and device.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/device/host_device.h"
#include "core/math/sigmoid.h"
#include "nn/graph.h"

namespace emblem {

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
struct GeluTanh {
  static constexpr bool kFromOutput = false;
  static constexpr float kRoot = 0.797884561f, kCube = 0.044715f;  // sqrt(2 / pi)
  EMBLEM_HD static float inner(float x) { return Tanh::value(kRoot * (x + kCube * x * x * x)); }
  EMBLEM_HD static float value(float x) { return 0.5f * x * (1.0f + inner(x)); }
  EMBLEM_HD static float slope(float x) {
    const float t = inner(x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kRoot * (1.0f + 3.0f * kCube * x * x);
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
struct LeakyReluOf {
  static constexpr bool kFromOutput = false;
  float negative_slope;
  EMBLEM_HD float value(float x) const { return x < 0.0f ? negative_slope * x : x; }
  EMBLEM_HD float slope(float x) const { return x > 0.0f ? 1.0f : negative_slope; }
};
// scale * (x above 0, else alpha (e^(x / width) - 1)): ELU, SELU and CELU.
struct Elu {
  static constexpr bool kFromOutput = false;
  float scale, alpha, width;
  EMBLEM_HD float value(float x) const {
    return scale * (x > 0.0f ? x : alpha * expm1f(x / width));
  }
  EMBLEM_HD float slope(float x) const {
    return scale * (x > 0.0f ? 1.0f : alpha / width * exp_inline(x / width));
  }
};
EMBLEM_HD inline float softplus(float x) {
  return (x > 0.0f ? x : 0.0f) + log1pf(exp_inline(x > 0.0f ? -x : x));
}
struct Softplus {
  static constexpr bool kFromOutput = false;
  float beta, threshold;
  EMBLEM_HD float value(float x) const {
    return x * beta > threshold ? x : softplus(x * beta) / beta;
  }
  EMBLEM_HD float slope(float x) const {
    return x * beta > threshold ? 1.0f : sigmoid_inline(x * beta);
  }
};
struct Softsign {
  static constexpr bool kFromOutput = false;
  EMBLEM_HD static float value(float x) { return x / (1.0f + fabsf(x)); }
  EMBLEM_HD static float slope(float x) { return 1.0f / ((1.0f + fabsf(x)) * (1.0f + fabsf(x))); }
};
struct Hardsigmoid {
  static constexpr bool kFromOutput = false;
  EMBLEM_HD static float value(float x) {
    return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : x / 6.0f + 0.5f;
  }
  EMBLEM_HD static float slope(float x) { return x > -3.0f && x < 3.0f ? 1.0f / 6.0f : 0.0f; }
};
struct Hardswish {
  static constexpr bool kFromOutput = false;
  EMBLEM_HD static float value(float x) { return x * Hardsigmoid::value(x); }
  EMBLEM_HD static float slope(float x) {
    return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : x / 3.0f + 0.5f;
  }
};
// x within [least, most]: Hardtanh and ReLU6.
struct Clamp {
  static constexpr bool kFromOutput = false;
  float least, most;
  EMBLEM_HD float value(float x) const { return x < least ? least : x > most ? most : x; }
  EMBLEM_HD float slope(float x) const { return x > least && x < most ? 1.0f : 0.0f; }
};
struct Mish {
  static constexpr bool kFromOutput = false;
  EMBLEM_HD static float value(float x) { return x * Tanh::value(softplus(x)); }
  EMBLEM_HD static float slope(float x) {
    const float t = Tanh::value(softplus(x));
    return t + x * (1.0f - t * t) * sigmoid_inline(x);
  }
};
struct LogSigmoid {
  static constexpr bool kFromOutput = false;
  EMBLEM_HD static float value(float x) { return -softplus(-x); }
  EMBLEM_HD static float slope(float x) { return sigmoid_inline(-x); }
};

}  // namespace activations

// Calls body with the struct of an activation that ops apply to their own output, so that loops are
// compiled for each.
template <class Body>
void with_fused_activation(Activation activation, Body&& body) {
  switch (activation.kind) {
    case Activation::kRelu:
      return body(activations::Relu{});
    case Activation::kSigmoid:
      return body(activations::Sigmoid{});
    case Activation::kTanh:
      return body(activations::Tanh{});
    case Activation::kLeakyRelu:
      return body(activations::LeakyRelu{});
    default:
      return body(activations::None{});
  }
}

// The same for all that have no trained parameters.
template <class Body>
void with_activation(Activation activation, Body&& body) {
  const float first = activation.first, second = activation.second;
  switch (activation.kind) {
    case Activation::kRelu:
      return body(activations::Relu{});
    case Activation::kSigmoid:
      return body(activations::Sigmoid{});
    case Activation::kTanh:
      return body(activations::Tanh{});
    case Activation::kGelu:
      return body(activations::Gelu{});
    case Activation::kGeluTanh:
      return body(activations::GeluTanh{});
    case Activation::kSilu:
      return body(activations::Silu{});
    case Activation::kLeakyRelu:
      return body(activations::LeakyReluOf{first});
    case Activation::kElu:
      return body(activations::Elu{1.0f, first, 1.0f});
    case Activation::kSelu:
      return body(activations::Elu{1.05070099f, 1.67326324f, 1.0f});
    case Activation::kCelu:
      return body(activations::Elu{1.0f, first, first});
    case Activation::kSoftplus:
      return body(activations::Softplus{first, second});
    case Activation::kSoftsign:
      return body(activations::Softsign{});
    case Activation::kHardswish:
      return body(activations::Hardswish{});
    case Activation::kHardsigmoid:
      return body(activations::Hardsigmoid{});
    case Activation::kHardtanh:
    case Activation::kRelu6:
      return body(activations::Clamp{first, second});
    case Activation::kMish:
      return body(activations::Mish{});
    case Activation::kLogSigmoid:
      return body(activations::LogSigmoid{});
    case Activation::kNone:
    case Activation::kPrelu:
    case Activation::kDice:
      return body(activations::None{});
  }
}

// Whether ops apply it to their own output and, keeping that alone, can go back through it.
bool can_be_fused(Activation activation);

const char* name_of(Activation activation);

}  // namespace emblem
