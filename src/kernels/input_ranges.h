// kernels/input_ranges.h - what columns of a layer's input are like, which says how they are
// rounded to int8.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/math/random.h"
#include "kernels/gemm.h"

namespace emblem {

// Ranges of each column.
struct InputRanges {
  std::vector<float> low, high;     // 255 steps from one to the other; values beyond are limited
  std::vector<float> mean;          // mean of the values,
  std::vector<float> rounded_mean;  // and of what they become

  bool empty() const { return low.empty(); }
  int64_t inputs() const { return static_cast<int64_t>(low.size()); }
};
using LayerRanges = std::map<std::string, InputRanges>;  // by name of the layer

// How a column is rounded: values become round(factor * value) + zero, limited to [-128, 127].
struct Int8Column {
  Int8Column(float low, float high);
  float rounded(float value) const;  // what a value becomes

  float step, factor;
  int32_t zero;
};

// Finds ranges: those with the least squared error of a layer's products, over some rows.
class InputRecorder {
 public:
  void add(Matrix<const float> x);
  bool empty() const { return seen_ == 0; }
  InputRanges ranges(Matrix<const float> weights) const;

 private:
  static constexpr int64_t kMostRows = 4096;

  int64_t cols_ = 0, seen_ = 0;
  std::vector<float> rows_;  // an even choice of those that were seen
  Random random_{.seed = 1};
};

}  // namespace emblem
