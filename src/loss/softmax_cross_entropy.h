// loss/softmax_cross_entropy.h - cross entropy of softmax(x) and a column's number.
#pragma once

#include "loss/formula.h"

namespace emblem::losses {

struct SoftmaxCrossEntropy {
  static constexpr const char* kName = "softmax_cross_entropy";
  static constexpr HeadKind kHead = HeadKind::kClass;

  float smoothing = 0.0f;  // the part of the label that is spread over all columns

  template <class Losses>
  static SoftmaxCrossEntropy from(const Losses& losses) {
    return {losses.softmax_cross_entropy().label_smoothing()};
  }
  void check(const std::string& path) const { require_smoothing(smoothing, path); }

  // Whether the label numbers a column; others have a loss that is not a number.
  EMBLEM_HD static bool numbers_column(float label, int64_t cols) {
    return label >= 0.0f && label < static_cast<float>(cols) && floorf(label) == label;
  }
  template <class Row>
  EMBLEM_HD static double mean(const Row& x, int64_t cols) {
    double mean = 0.0;
    for (int64_t c = 0; c < cols; ++c) mean += x(c) / static_cast<double>(cols);
    return mean;
  }
  template <class Row>
  EMBLEM_HD double value(const Row& x, int64_t cols, float label) const {
    if (!numbers_column(label, cols)) return NAN;
    const double all = smoothing > 0.0f ? mean(x, cols) : 0.0;
    const double chosen = x(static_cast<int64_t>(label));
    return log_sum_exp(x, cols) - (1.0 - smoothing) * chosen - smoothing * all;
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

  template <class Row>
  double evaluated(const Row& x, int64_t cols, double label) const {
    const double target =
        (1.0 - smoothing) * x(static_cast<int64_t>(label)) + smoothing * mean(x, cols);
    return log_sum_exp(x, cols) - target;
  }
};

}  // namespace emblem::losses
