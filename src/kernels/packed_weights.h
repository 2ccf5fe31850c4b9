// kernels/packed_weights.h - y = x W^T for weights that many rows pass: laid out once in the order
// in which the product reads them.
//
// Every element of y is summed over the columns of x in their order. So a row's result depends on
// that row alone, never on other rows.
#pragma once

#include <span>
#include <vector>

#include "core/memory/buffer.h"
#include "kernels/cpu/copied_rows.h"
#include "kernels/gemm.h"
#include "kernels/input_ranges.h"

namespace emblem::cpu {

class PackedWeights {
 public:
  PackedWeights() = default;
  explicit PackedWeights(Matrix<const float> weights) { assign(weights); }

  // Takes W [units, inputs], reusing the memory; or W^T for weights [inputs, units]. x and W are
  // rounded to `type`. The number of rows is a hint in training; in predictions it is kAny, and
  // results are those of the second form.
  void assign(const Context& context, Matrix<const float> weights,
              Transpose transpose = Transpose::kNo, DType type = DType::kF32,
              Rows rows = Rows::kMany);
  // Packs for predictions by the same weights many times: few rows are fast, too.
  void assign(Matrix<const float> weights, DType type = DType::kF32);

  // In int8: columns of x are rounded to 255 steps of their range, which need not hold all their
  // values, and each unit's weights to 255 steps of their own.
  void assign_int8(Matrix<const float> weights, const InputRanges& ranges);

  int64_t units() const { return units_; }
  int64_t inputs() const { return inputs_; }

  // Numbers of rows that are a multiple of it are multiplied fastest.
  int64_t row_unit() const { return kernel_->rows; }
  // And no more at a time, where rows are not copied.
  int64_t row_block() const { return kernel_->row_block; }
  // Where a part of the units may begin.
  static constexpr int64_t kAlign = 32;

  // y = x [rows, inputs] times the units [unit, unit + columns of y), on the calling thread; or
  // y + that with `add`; then finish of that, whose bias is that of the first of these units.
  // `unit` is a multiple of kAlign. In int8 the product is scales()[u] y + offsets()[u], for the
  // caller to compute with what it does to y anyway.
  void multiply(Matrix<const float> x, int64_t unit, Matrix<float> y, bool add = false,
                const Finish& finish = {}) const;
  void multiply(Matrix<const float> x, Matrix<float> y, bool add = false,
                const Finish& finish = {}) const {
    multiply(x, 0, y, add, finish);
  }

  // Whether that many rows are copied to be multiplied. If so, parts of the units may share copies.
  bool copies(int64_t rows) const {
    return kernel_->multiply_copied != nullptr && rows > TileKernel::kMostFewRows && inputs_ > 0;
  }
  // Copies x by the threads of `context`, to memory of the calling thread that is valid until its
  // next call.
  CopiedRows copy(const Context& context, Matrix<const float> x) const;
  // `next` is the unit where the thread's next product will begin, if there is such a unit.
  void multiply(const CopiedRows& x, int64_t unit, Matrix<float> y, const Finish& finish,
                int64_t next) const;

  DType type() const { return kernel_->type; }
  bool is_int8() const { return kernel_ != nullptr && kernel_->type == DType::kInt8; }
  std::span<const float> scales() const { return scales_; }
  std::span<const float> offsets() const { return offsets_; }

 private:
  const TileKernel* kernel_ = nullptr;
  int64_t units_ = 0, inputs_ = 0;
  // In int8: how columns of x are rounded, and what the sums of units mean.
  std::vector<float> factors_, scales_, offsets_;
  std::vector<int32_t> zeros_;
  // Panels of the kernel, by units; those of wide layers are in huge pages.
  Buffer<std::byte> panels_;
  Buffer<float> float_panels_;  // for few rows (TileKernel::multiply_few_floats), if any
};

}  // namespace emblem::cpu
