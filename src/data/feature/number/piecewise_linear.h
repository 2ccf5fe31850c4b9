// data/feature/number/piecewise_linear.h - RawFeature.piecewise_linear: a number becomes one per
// bin.
#pragma once

#include <cstdint>
#include <vector>

namespace emblem {

// 0 for bins above x, 1 for bins below it, and in its own bin the share of the bin that lies below
// it. Without edges x stays as it is.
class PiecewiseLinear {
 public:
  // `edges` rise; none, or at least two.
  explicit PiecewiseLinear(const std::vector<float>& edges = {});

  bool is_identity() const { return edges_.empty(); }
  int64_t bins() const { return static_cast<int64_t>(widths_.size()); }
  // Writes bins() numbers. NaN gives NaN in all of them.
  void encode(float x, float* out) const;

 private:
  std::vector<float> edges_, widths_;
};

}  // namespace emblem
