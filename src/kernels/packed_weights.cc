#include "kernels/packed_weights.h"

#include <algorithm>
#include <cmath>

#include "core/memory/scratch_memory.h"
#include "core/threads/thread_pool.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/tile_product.h"

namespace emblem::cpu {
namespace {

// Grain size: elements that a thread packs or copies at a time.
constexpr int64_t kPackedAtATime = 64 * 1024, kCopiedAtATime = 16 * 1024;
// Weights from which on few rows wait for memory: these may be split while they are read.
constexpr int64_t kWorthSplitting = 256 * 1024;

// In predictions, it depends on the weights alone, so that results do not depend on the rows.
const TileKernel& kernel_for(Matrix<const float> weights, DType type, Rows rows) {
  const TileKernel& many = tile_kernel(type);
  const bool worth =
      many.multiply_few_floats != nullptr && weights.rows * weights.cols >= kWorthSplitting;
  return rows == Rows::kMany || worth ? many : tile_kernel(type, Rows::kAny);
}

}  // namespace

void PackedWeights::assign(Matrix<const float> weights, DType type) {
  assign(Context(), weights, Transpose::kNo, type, Rows::kAny);
  if (kernel_->multiply_few_floats == nullptr) return;
  const int64_t width = kernel_->cols, panels = (units_ + width - 1) / width;
  float_panels_ = Buffer<float>(Device::kCpu, panels * width * inputs_);
  pack_floats({.data = weights.data, .count = units_, .inner = inputs_, .step = weights.stride},
              width, reinterpret_cast<std::byte*>(float_panels_.data()));
}

void PackedWeights::assign(const Context& context, Matrix<const float> weights, Transpose transpose,
                           DType type, Rows rows) {
  const bool turn = transpose == Transpose::kYes;
  const TileKernel& kernel = kernel_for(weights, type, rows);
  const int64_t units = turn ? weights.cols : weights.rows;
  const int64_t inputs = turn ? weights.rows : weights.cols;
  const int64_t width = kernel.cols, panels = (units + width - 1) / width;
  const int64_t bytes = kernel.panel_bytes(width, inputs);
  const auto needed = static_cast<int64_t>(kernel.bytes_for(units, width, inputs));
  if (panels_.size() < needed) panels_ = Buffer<std::byte>(Device::kCpu, needed);
  kernel_ = &kernel;
  float_panels_ = {};
  units_ = units;
  inputs_ = inputs;
  const int64_t each = std::max<int64_t>(1, kPackedAtATime / std::max<int64_t>(1, inputs_ * width));
  parallel_for(context, panels, each, [&](int64_t begin, int64_t end) {
    const int64_t unit = begin * width;
    kernel_->pack_right({.data = weights.data + unit * (turn ? 1 : weights.stride),
                         .count = std::min(end * width, units_) - unit,
                         .inner = inputs_,
                         .step = turn ? 1 : weights.stride,
                         .inner_step = turn ? weights.stride : 1},
                        width, panels_.data() + begin * bytes);
  });
}

// Column k of x is about steps[k] * (q - zeros[k]) for its int8 elements q. So the product is that
// of q and W's columns times steps, whose rows become int8 by scales. Offsets are for the zeros,
// and such that the product is right for the mean of x.
void PackedWeights::assign_int8(Matrix<const float> weights, const InputRanges& ranges) {
  constexpr float kLargest = 127.0f;
  const auto inputs = static_cast<size_t>(weights.cols), units = static_cast<size_t>(weights.rows);
  EMBLEM_REQUIRE(ranges.low.size() == inputs, "int8: ranges of ", ranges.low.size(),
                 " inputs for a layer of ", inputs);
  std::vector<float> steps(inputs), rounded(units * inputs);
  factors_.resize(inputs);
  zeros_.resize(inputs);
  scales_.assign(units, 1.0f);
  offsets_.assign(units, 0.0f);
  for (size_t k = 0; k < inputs; ++k) {
    const Int8Column column(ranges.low[k], ranges.high[k]);
    steps[k] = column.step;
    factors_[k] = column.factor;
    zeros_[k] = column.zero;
  }
  for (size_t u = 0; u < units; ++u) {
    const float* row = weights.row(static_cast<int64_t>(u));
    float* to = rounded.data() + u * inputs;
    float largest = 0.0f;
    for (size_t k = 0; k < inputs; ++k) largest = std::max(largest, std::abs(row[k] * steps[k]));
    if (std::isnormal(largest / kLargest)) scales_[u] = largest / kLargest;
    double offset = 0.0;
    for (size_t k = 0; k < inputs; ++k) {
      to[k] = std::nearbyint(row[k] * steps[k] / scales_[u]);
      const double weight = double{scales_[u]} * double{to[k]};  // weight of an element
      offset += double{row[k]} * double{ranges.mean[k]} -
                weight * (double{ranges.rounded_mean[k]} / double{steps[k]} + zeros_[k]);
    }
    offsets_[u] = static_cast<float>(offset);
  }
  assign({rounded.data(), weights.rows, weights.cols}, DType::kInt8);
}

void PackedWeights::multiply(Matrix<const float> x, int64_t unit, Matrix<float> y, bool add,
                             const Finish& finish) const {
  const int64_t bytes = kernel_->panel_bytes(kernel_->cols, inputs_);
  const Lines rows{.data = x.data,
                   .count = x.rows,
                   .inner = inputs_,
                   .step = x.stride,
                   .factors = is_int8() ? factors_.data() : nullptr,
                   .zeros = is_int8() ? zeros_.data() : nullptr};
  if (inputs_ == 0 && !add) scale(0.0f, y);
  if (float_panels_.size() > 0 && x.rows <= TileKernel::kMostFloatRows) {
    return multiply_float_panels(*kernel_, rows, float_panels_.data() + unit * inputs_, y.cols, add,
                                 y.data, y.stride, finish);
  }
  multiply_panels(*kernel_, rows, 1.0f, panels_.data() + unit / kernel_->cols * bytes, bytes,
                  y.cols, add, y.data, y.stride, finish);
}

CopiedRows PackedWeights::copy(const Context& context, Matrix<const float> x) const {
  static thread_local ScratchMemory<float> memory;
  const CopiedRows copies{memory.take(CopiedRows::floats_for(x.rows, inputs_)), x.rows, inputs_};
  const Lines lines{.data = x.data, .count = x.rows, .inner = inputs_, .step = x.stride};
  const int64_t each = std::max<int64_t>(1, kCopiedAtATime / inputs_);
  parallel_for(context, x.rows, each,
               [&](int64_t begin, int64_t end) { copies.copy(lines, begin, end); });
  return copies;
}

void PackedWeights::multiply(const CopiedRows& x, int64_t unit, Matrix<float> y,
                             const Finish& finish, int64_t next) const {
  const int64_t bytes = kernel_->panel_bytes(kernel_->cols, inputs_);
  const auto panel = [&](int64_t u) { return panels_.data() + u / kernel_->cols * bytes; };
  multiply_copied(*kernel_, x, panel(unit), bytes, y.cols, false, y.data, y.stride, finish,
                  next < units_ ? panel(next) : nullptr);
}

}  // namespace emblem::cpu
