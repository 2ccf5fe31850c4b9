// model/layers/probability.h - what a logit means; the one place, so that predictions and served
// answers are equal.
#pragma once

#include <cmath>

namespace emblem {

inline float probability_of(float logit) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(logit))));
}

}  // namespace emblem
