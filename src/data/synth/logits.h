// data/synth/logits.h - logits of planted labels.
#pragma once

#include <cmath>
#include <vector>

namespace emblem {

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What is added to the logits to make their mean probability `mean`, by bisection.
inline double bias_for(const std::vector<double>& logits, double mean) {
  double low = -30, high = 30;
  for (int step = 0; step < 60; ++step) {
    const double bias = (low + high) / 2;
    double sum = 0;
    for (const double logit : logits) sum += sigmoid(logit + bias);
    (sum < mean * static_cast<double>(logits.size()) ? low : high) = bias;
  }
  return (low + high) / 2;
}

}  // namespace emblem
