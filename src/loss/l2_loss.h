// loss/l2_loss.h - the squared difference, in units of the labels' deviation.
#pragma once

#include "loss/formula.h"

namespace emblem::losses {

struct L2Loss {
  static constexpr const char* kName = "l2_loss";
  static constexpr HeadKind kHead = HeadKind::kNumber;

  float mean = 0.0f, deviation = 1.0f;  // labels: (label - mean) / deviation is learnt

  template <class Losses>
  static L2Loss from(const Losses& losses) {
    return {losses.l2_loss().mean(), losses.l2_loss().standard_deviation()};
  }
  void check(const std::string& path) const {
    EMBLEM_REQUIRE(deviation > 0 && std::isfinite(deviation), path, ".standard_deviation is ",
                   deviation, ", expected more than 0");
    EMBLEM_REQUIRE(std::isfinite(mean), path, ".mean is ", mean, ", expected a finite number");
  }

  template <class Row>
  EMBLEM_HD double value(const Row& x, int64_t, float label) const {
    const double apart = static_cast<double>(x(0)) - (label - mean) / deviation;
    return apart * apart;
  }
  template <class Row, class Put>
  EMBLEM_HD void slopes(const Row& x, int64_t, float label, Put&& put) const {
    put(0, 2.0f * (x(0) - (label - mean) / deviation));
  }

  // x(0) is the prediction, in the unit of labels.
  template <class Row>
  double evaluated(const Row& x, int64_t, double label) const {
    const double difference = static_cast<double>(x(0)) - label, unit = deviation;
    return difference * difference / (unit * unit);
  }
};

}  // namespace emblem::losses
