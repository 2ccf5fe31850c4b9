#include "kernels/packed_weights.h"

#include <algorithm>

namespace emblem::cpu {
namespace {

// Chosen so that a tile of kRows x kPanel sums fits the vector registers.
#if defined(__AVX512F__)
constexpr int kLanes = 16, kPanel = 32, kRows = 8;
#elif defined(__AVX__)
constexpr int kLanes = 8, kPanel = 16, kRows = 6;
#else
constexpr int kLanes = 4, kPanel = 16, kRows = 6;
#endif
constexpr int kVectors = kPanel / kLanes;

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes load(const float* from) {
  Lanes value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

// Rows x (Panels * kPanel) sums; `panel` is the first of Panels that are `panel_stride` apart.
template <int Rows, int Panels>
void multiply_tile(const float* x, int64_t x_stride, const float* panel, int64_t panel_stride,
                   int64_t inputs, int64_t units, float* y, int64_t y_stride) {
  Lanes sums[Rows][Panels * kVectors] = {};
  for (int64_t k = 0; k < inputs; ++k) {
    Lanes w[Panels * kVectors];
    for (int p = 0; p < Panels; ++p) {
      for (int v = 0; v < kVectors; ++v)
        w[p * kVectors + v] = load(panel + p * panel_stride + k * kPanel + v * kLanes);
    }
    for (int r = 0; r < Rows; ++r) {
      const float value = x[r * x_stride + k];
      for (int v = 0; v < Panels * kVectors; ++v) sums[r][v] += w[v] * value;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    float* to = y + r * y_stride;
    if (units == Panels * kPanel) {
      __builtin_memcpy(to, sums[r], sizeof(sums[r]));
    } else {
      float row[Panels * kPanel];
      __builtin_memcpy(row, sums[r], sizeof(row));
      std::copy_n(row, units, to);
    }
  }
}

}  // namespace

void PackedWeights::assign(Matrix<const float> weights) {
  units_ = weights.rows;
  inputs_ = weights.cols;
  const int64_t panels = (units_ + kPanel - 1) / kPanel;
  panels_.resize(static_cast<size_t>(panels * inputs_ * kPanel));
  for (int64_t panel = 0; panel < panels; ++panel) {
    float* to = panels_.data() + panel * inputs_ * kPanel;
    for (int64_t u = 0; u < kPanel; ++u) {
      const int64_t unit = panel * kPanel + u;
      for (int64_t k = 0; k < inputs_; ++k)
        to[k * kPanel + u] = unit < units_ ? weights.row(unit)[k] : 0.0f;
    }
  }
}

void PackedWeights::multiply(Matrix<const float> x, int64_t first, Matrix<float> y) const {
  static_assert(kAlign % kPanel == 0);
  const int64_t panel_floats = inputs_ * kPanel, end = first + y.cols;
  const auto tile = [&]<int Rows, int Panels>(int64_t row, int64_t unit) {
    multiply_tile<Rows, Panels>(
        x.row(row), x.stride, panels_.data() + unit / kPanel * panel_floats, panel_floats, inputs_,
        std::min<int64_t>(Panels * kPanel, end - unit), y.row(row) + unit - first, y.stride);
  };
  // Panels in the outer loop: one stays in the cache while all rows pass it.
  for (int64_t unit = first; unit < end;) {
    // Few rows have few sums under way at a time; two panels keep the units for arithmetic busy.
    const bool two = x.rows <= 2 && end - unit > kPanel;
    int64_t row = 0;
    for (; row + kRows <= x.rows; row += kRows) tile.template operator()<kRows, 1>(row, unit);
    for (; row + 4 <= x.rows; row += 4) tile.template operator()<4, 1>(row, unit);
    for (; row + 2 <= x.rows; row += 2) {
      if (two) {
        tile.template operator()<2, 2>(row, unit);
      } else {
        tile.template operator()<2, 1>(row, unit);
      }
    }
    if (row < x.rows) {
      if (two) {
        tile.template operator()<1, 2>(row, unit);
      } else {
        tile.template operator()<1, 1>(row, unit);
      }
    }
    unit += two ? 2 * kPanel : kPanel;
  }
}

}  // namespace emblem::cpu
