#include "data/feature/number/piecewise_linear.h"

#include <algorithm>
#include <cmath>

namespace emblem {

PiecewiseLinear::PiecewiseLinear(const std::vector<float>& edges) : edges_(edges) {
  for (size_t i = 1; i < edges.size(); ++i) widths_.push_back(edges[i] - edges[i - 1]);
}

void PiecewiseLinear::encode(float x, float* out) const {
  for (size_t i = 0; i < widths_.size(); ++i) {
    const float share = (x - edges_[i]) / widths_[i];
    out[i] = std::isnan(x) ? x : std::clamp(share, 0.0f, 1.0f);
  }
}

}  // namespace emblem
