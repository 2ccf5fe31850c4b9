// nn/ops/cross_entropy.h - the cross entropy of a logit and a label, written once for every device.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "nn/ops/activation.h"

namespace emblem {

// -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))), without overflow for any x.
EMBLEM_HD inline double cross_entropy(float x, float y) {
  return (x > 0.0f ? x : 0.0) - static_cast<double>(x) * y +
         log1p(exp(-fabs(static_cast<double>(x))));
}

EMBLEM_HD inline float cross_entropy_slope(float x, float y) { return sigmoid_inline(x) - y; }

EMBLEM_HD inline float smooth_label(float label, float smoothing) {
  return label * (1.0f - smoothing) + 0.5f * smoothing;
}

// The gradient of the mean, for a sample of this weight.
EMBLEM_HD inline float share_of(double total_weight) {
  return total_weight == 0.0 ? 0.0f : static_cast<float>(1.0 / total_weight);
}

}  // namespace emblem
