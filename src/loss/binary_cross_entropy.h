// loss/binary_cross_entropy.h
#pragma once

#include "loss/formula.h"

namespace emblem::losses {

struct BinaryCrossEntropy {
  static constexpr const char* kName = "binary_cross_entropy";
  static constexpr HeadKind kHead = HeadKind::kBinary;

  float smoothing = 0.0f;

  template <class Losses>
  static BinaryCrossEntropy from(const Losses& losses) {
    return {losses.binary_cross_entropy().label_smoothing()};
  }
  void check(const std::string& path) const { require_smoothing(smoothing, path); }

  template <class Label>
  EMBLEM_HD Label smooth(Label label) const {
    return label * (Label{1} - smoothing) + static_cast<Label>(0.5) * smoothing;
  }
  template <class Row, class Label>
  EMBLEM_HD double value(const Row& x, int64_t, Label label) const {
    return cross_entropy(x(0), smooth(label));
  }
  template <class Row, class Put>
  EMBLEM_HD void slopes(const Row& x, int64_t, float label, Put&& put) const {
    put(0, cross_entropy_slope(x(0), smooth(label)));
  }
};

}  // namespace emblem::losses
