// loss/formula.h - what the losses share.
//
// A loss is a struct in a file of its own, listed in loss/losses.h. It has
//   kName             its field in LossConfig
//   kHead             what the outputs that it learns mean
//   kClasses          HeadKind::kClass: the number of classes, where only one will do
//   from(losses)      the struct with the settings of a LossConfig
//   check(path)       throws Error for settings out of range; `path` is their place in the pipeline
//   session(losses)   the feature whose rows it compares, where it compares rows
// and, where each row counts for itself, for every device
//   value(x, cols, label)        the loss of a row of columns x(0), x(1), ...
//   slopes(x, cols, label, put)  passes the derivative with respect to column c to put(c,
//   derivative)
// None overflows for any x. Evaluations report value() of labels in double, or evaluated() where
// there is one.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "core/device/host_device.h"
#include "core/math/sigmoid.h"
#include "emblem/error.h"

namespace emblem {

// What the numbers of a head mean; its losses decide.
enum class HeadKind {
  kBinary,  // one logit, the probability of 1 is its sigmoid
  kClass,   // a logit per class
  kNumber,  // the value itself
};

namespace losses {

// -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x)))
EMBLEM_HD inline double cross_entropy(double x, double y) {
  return (x > 0.0 ? x : 0.0) - x * y + log1p(exp(-fabs(x)));
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

inline void require_smoothing(float smoothing, const std::string& path) {
  EMBLEM_REQUIRE(smoothing >= 0 && smoothing < 1, path, ".label_smoothing is ", smoothing,
                 ", expected at least 0 and less than 1");
}

}  // namespace losses
}  // namespace emblem
