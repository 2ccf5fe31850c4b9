// nn/ops/loss_formulas.h - the losses of a row and their derivatives, written once for every
// device.
//
// Each formula gives the loss of a row from its columns x(0), x(1), ... and its label, and passes
// the derivative with respect to column c to put(c, derivative). None overflows for any x.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "nn/ops/activation.h"

namespace emblem::losses {

// -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x)))
EMBLEM_HD inline double cross_entropy(float x, float y) {
  return (x > 0.0f ? x : 0.0) - static_cast<double>(x) * y +
         log1p(exp(-fabs(static_cast<double>(x))));
}

EMBLEM_HD inline float cross_entropy_slope(float x, float y) { return sigmoid_inline(x) - y; }

// log(sum of e^x(c))
template <class Row>
EMBLEM_HD double log_sum_exp(const Row& x, int64_t cols) {
  double most = x(0), sum = 0.0;
  for (int64_t c = 1; c < cols; ++c) most = x(c) > most ? x(c) : most;
  for (int64_t c = 0; c < cols; ++c) sum += exp(x(c) - most);
  return most + log(sum);
}

// Whether the label numbers a column; others have a loss that is not a number.
EMBLEM_HD inline bool numbers_column(float label, int64_t cols) {
  return label >= 0.0f && label < static_cast<float>(cols) && floorf(label) == label;
}

struct BinaryCrossEntropy {
  static constexpr const char* kKind = "binary_cross_entropy";
  float smoothing = 0.0f;

  EMBLEM_HD float smooth(float label) const {
    return label * (1.0f - smoothing) + 0.5f * smoothing;
  }
  template <class Row>
  EMBLEM_HD double value(const Row& x, int64_t, float label) const {
    return cross_entropy(x(0), smooth(label));
  }
  template <class Row, class Put>
  EMBLEM_HD void slopes(const Row& x, int64_t, float label, Put&& put) const {
    put(0, cross_entropy_slope(x(0), smooth(label)));
  }
};

// The cross entropy, less where the prediction is good already; that factor has no derivative.
struct Focal {
  static constexpr const char* kKind = "binary_focal_loss";
  float gamma = 2.0f, alpha = 0.5f;

  EMBLEM_HD float factor(float x, float label) const {
    return alpha * label * powf(sigmoid_inline(-x), gamma) +
           (1.0f - alpha) * (1.0f - label) * powf(sigmoid_inline(x), gamma);
  }
  template <class Row>
  EMBLEM_HD double value(const Row& x, int64_t, float label) const {
    return factor(x(0), label) * cross_entropy(x(0), label);
  }
  template <class Row, class Put>
  EMBLEM_HD void slopes(const Row& x, int64_t, float label, Put&& put) const {
    put(0, factor(x(0), label) * cross_entropy_slope(x(0), label));
  }
};

struct SquaredError {
  static constexpr const char* kKind = "l2_loss";
  float mean = 0.0f, deviation = 1.0f;  // of labels

  template <class Row>
  EMBLEM_HD double value(const Row& x, int64_t, float label) const {
    const double apart = static_cast<double>(x(0)) - (label - mean) / deviation;
    return apart * apart;
  }
  template <class Row, class Put>
  EMBLEM_HD void slopes(const Row& x, int64_t, float label, Put&& put) const {
    put(0, 2.0f * (x(0) - (label - mean) / deviation));
  }
};

// Of softmax(x) and a column's number; the smoothed part of the label is spread over all columns.
struct SoftmaxCrossEntropy {
  static constexpr const char* kKind = "softmax_cross_entropy";
  float smoothing = 0.0f;

  template <class Row>
  EMBLEM_HD double value(const Row& x, int64_t cols, float label) const {
    if (!numbers_column(label, cols)) return NAN;
    double mean = 0.0;
    if (smoothing > 0.0f) {
      for (int64_t c = 0; c < cols; ++c) mean += x(c) / static_cast<double>(cols);
    }
    const double chosen = x(static_cast<int64_t>(label));
    return log_sum_exp(x, cols) - (1.0 - smoothing) * chosen - smoothing * mean;
  }
  template <class Row, class Put>
  EMBLEM_HD void slopes(const Row& x, int64_t cols, float label, Put&& put) const {
    const bool known = numbers_column(label, cols);
    const auto chosen = known ? static_cast<int64_t>(label) : -1;
    const double total = known ? log_sum_exp(x, cols) : NAN;
    for (int64_t c = 0; c < cols; ++c) {
      const float target =
          (c == chosen ? 1.0f - smoothing : 0.0f) + smoothing / static_cast<float>(cols);
      put(c, static_cast<float>(exp(x(c) - total)) - target);
    }
  }
};

}  // namespace emblem::losses
