#include "model/layers/outputs.h"

#include <algorithm>
#include <cmath>

#include "emblem/error.h"

namespace emblem {
namespace {

// to[class] = its probability.
void softmax(const float* logits, int64_t classes, float* to) {
  const double most = *std::max_element(logits, logits + classes);
  double sum = 0.0;
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - most);
  for (int64_t i = 0; i < classes; ++i)
    to[i] = static_cast<float>(std::exp(logits[i] - most) / sum);
}

// The probability of the second of two classes, bitwise equal to that of the softmax over all.
float second_probability(const float* logits) {
  float both[2];
  softmax(logits, 2, both);
  return both[1];
}

}  // namespace

void compute_output(const OutputSpec& output, int64_t classes, View<const float> logits,
                    float* to) {
  using Value = OutputSpec::Value;
  const int64_t begin = output.domain * classes;
  EMBLEM_REQUIRE(begin + classes <= logits.cols, "output ", output.name, " reads logits ", begin,
                 " to ", begin + classes, ", but there are ", logits.cols);
  for (int64_t row = 0; row < logits.rows; ++row, to += output.cols) {
    const float* from = logits.row(row) + begin;
    switch (output.value) {
      case Value::kProbability:
        to[0] = classes == 1 ? probability_of(from[0]) : second_probability(from);
        break;
      case Value::kProbabilities:
        softmax(from, classes, to);
        break;
      case Value::kLogits:
        std::copy_n(from, output.cols, to);
        break;
      case Value::kNumber:
        to[0] = output.mean + output.deviation * from[0];
        break;
    }
  }
}

}  // namespace emblem
