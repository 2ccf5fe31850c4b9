// loss/binary_focal_loss.h - cross entropy, less where the prediction is good already; that factor
// has no derivative.
#pragma once

#include "loss/formula.h"

namespace emblem::losses {

struct BinaryFocalLoss {
  static constexpr const char* kName = "binary_focal_loss";
  static constexpr HeadKind kHead = HeadKind::kBinary;

  float gamma = 2.0f, alpha = 0.5f;

  template <class Losses>
  static BinaryFocalLoss from(const Losses& losses) {
    return {losses.binary_focal_loss().gamma(), losses.binary_focal_loss().alpha()};
  }
  void check(const std::string& path) const {
    EMBLEM_REQUIRE(alpha > 0 && alpha < 1, path, ".alpha is ", alpha,
                   ", expected more than 0 and less than 1");
    EMBLEM_REQUIRE(gamma >= 0, path, ".gamma is ", gamma, ", expected at least 0");
  }

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

  template <class Row>
  double evaluated(const Row& x, int64_t, double label) const {
    const double p = 1.0 / (1.0 + std::exp(-static_cast<double>(x(0))));
    const double weight = alpha * label * std::pow(1.0 - p, static_cast<double>(gamma)) +
                          (1.0 - alpha) * (1.0 - label) * std::pow(p, static_cast<double>(gamma));
    return weight * cross_entropy(x(0), label);
  }
};

}  // namespace emblem::losses
