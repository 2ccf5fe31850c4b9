#include "kernels/packed_weights.h"

#include <algorithm>

#include "core/thread_pool.h"
#include "kernels/cpu/tile_product.h"

namespace emblem::cpu {
namespace {

constexpr int64_t kPackedAtATime = 64 * 1024;  // elements that are worth a thread's while

}  // namespace

void PackedWeights::assign(const Context& context, Matrix<const float> weights, Transpose transpose,
                           DType type) {
  const bool turn = transpose == Transpose::kYes;
  kernel_ = &tile_kernel(type);
  units_ = turn ? weights.cols : weights.rows;
  inputs_ = turn ? weights.rows : weights.cols;
  const int64_t width = kernel_->cols, panels = (units_ + width - 1) / width;
  const int64_t bytes = kernel_->panel_bytes(width, inputs_);
  panels_.resize(kernel_->bytes_for(units_, width, inputs_));
  const int64_t each = std::max<int64_t>(1, kPackedAtATime / std::max<int64_t>(1, inputs_ * width));
  parallel_for(context, panels, each, [&](int64_t begin, int64_t end) {
    const int64_t unit = begin * width;
    kernel_->pack({.data = weights.data + unit * (turn ? 1 : weights.stride),
                   .count = std::min(end * width, units_) - unit,
                   .inner = inputs_,
                   .step = turn ? 1 : weights.stride,
                   .inner_step = turn ? weights.stride : 1},
                  width, panels_.data() + begin * bytes);
  });
}

void PackedWeights::multiply(Matrix<const float> x, int64_t unit, Matrix<float> y, bool add) const {
  if (inputs_ == 0 && !add) return scale(0.0f, y);
  const int64_t bytes = kernel_->panel_bytes(kernel_->cols, inputs_);
  multiply_panels(*kernel_, {x.data, x.rows, inputs_, x.stride, 1}, 1.0f,
                  panels_.data() + unit / kernel_->cols * bytes, bytes, y.cols, add, y.data,
                  y.stride);
}

}  // namespace emblem::cpu
