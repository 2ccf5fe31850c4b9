// kernels/cpu/few_rows.h - few rows times all columns of panels. What is here is local to the file
// that includes it, which is compiled for one instruction set.
#pragma once

#include <algorithm>

#include "kernels/cpu/tile_kernel.h"

namespace emblem::cpu {
namespace {

// Tiles::few_tile<Rows, Panels>(x, x_stride, panels, panel_stride, inner, add, c, stride) computes
// all columns of some panels. Several at a time keep the arithmetic units busy with few rows.
template <class Tiles, int Rows, int Panels>
class FewRows {
 public:
  static void multiply(const float* x, int64_t x_stride, const float* panels, int64_t panel_stride,
                       int64_t inner, int64_t cols, bool add, float* c, int64_t stride) {
    for (int64_t col = 0; col < cols;) {
      const auto group =
          cols - col > (Panels - 1) * kCols ? multiply_group<Panels> : multiply_group<1>;
      col += group(x, x_stride, panels + col / kCols * panel_stride, panel_stride, inner,
                   cols - col, add, c + col, stride);
    }
  }

 private:
  static constexpr int kCols = Tiles::kCols;

  // Returns the number of columns.
  template <int Count>
  static int64_t multiply_group(const float* x, int64_t x_stride, const float* panels,
                                int64_t panel_stride, int64_t inner, int64_t cols, bool add,
                                float* c, int64_t stride) {
    constexpr int kWidth = Count * kCols;
    if (cols >= kWidth) {
      Tiles::template few_tile<Rows, Count>(x, x_stride, panels, panel_stride, inner, add, c,
                                            stride);
      return kWidth;
    }
    float part[Rows * kWidth];
    for (int r = 0; add && r < Rows; ++r) std::copy_n(c + r * stride, cols, part + r * kWidth);
    Tiles::template few_tile<Rows, Count>(x, x_stride, panels, panel_stride, inner, add, part,
                                          kWidth);
    for (int r = 0; r < Rows; ++r) std::copy_n(part + r * kWidth, cols, c + r * stride);
    return cols;
  }
};

}  // namespace
}  // namespace emblem::cpu
