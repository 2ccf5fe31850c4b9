#include "nn/ops/dense/linear.h"

#include <utility>

#include "core/math/divide.h"
#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/dense/activation.h"

namespace emblem {
namespace {

// Up to this size the gradient of a weight matrix is summed in one copy per group of rows, right
// after the rows have passed; larger ones are worth a product of their own, cut over the matrix.
constexpr int64_t kMostFloatsPerGroup = 512 * 1024;

// Rows of a group whose gradients are in the cache at a time: products of weights' gradients sum
// over them, and the more the better.
constexpr int64_t kMostBackwardRows = 512;

// Predictions: least rows per thread, and weights from which on a product is worth several.
constexpr int64_t kFewRows = 12;
constexpr int64_t kWorthThreads = 64 * 1024, kSmallWorthThreads = 256 * 1024;  // fp32, and others
// Where rows are copied: parts for each thread, because cores may differ in speed, of this many
// rows at least and at most. Few rows are cut over units where weights do not fit the L2 cache: the
// threads read half of them each, or less.
constexpr int64_t kPartsEach = 4, kFewCopiedRows = 28, kMostCopiedRows = 192;
constexpr int64_t kRowsCutOverUnits = 48;  // for each thread
constexpr int64_t kWideWeights = 256 * 1024;

constexpr int64_t kRowsOfAUnit = 32;  // that a thread should have at least where there is one unit

// How the product of a prediction is cut for threads: into parts of some rows and all units, or of
// all rows and some units.
struct Cut {
  int64_t rows_each = 0, units_each = 0;
  bool shares_copies = false;  // parts of the units share copies of the rows
};

Cut cut_for(const cpu::PackedWeights& weights, int64_t rows, int64_t threads) {
  const int64_t units = weights.units(), size = weights.inputs() * units;
  const auto units_of_parts = [&](int64_t parts) {
    return round_up(divide_up(units, parts), cpu::PackedWeights::kAlign);
  };
  const bool copied = weights.copies(rows);
  if (threads > 1 && size >= kWideWeights && rows < kRowsCutOverUnits * threads)
    return {rows, units_of_parts(copied ? kPartsEach * threads : threads), copied};
  const int64_t worth = weights.type() == DType::kF32 ? kWorthThreads : kSmallWorthThreads;
  if (rows < kFewRows * threads) return {rows, size < worth ? units : units_of_parts(threads)};
  const int64_t for_all = divide_up(rows, threads);
  if (!copied) {
    const int64_t each = divide_up(for_all, divide_up(for_all, weights.row_block()));
    return {round_up(each, weights.row_unit()), units};
  }
  const int64_t parts =
      threads == 1 ? 1 : std::clamp<int64_t>(for_all / kFewCopiedRows, 1, kPartsEach);
  return {std::min(kMostCopiedRows, divide_up(rows, threads * parts)), units};
}

// y = f(y + bias) for the rows of a tile.
template <class F>
void add_bias_and_activate(Matrix<float> y, const float* bias, F f) {
  for (int64_t r = 0; r < y.rows; ++r) {
    float* __restrict row = y.row(r);
    if (bias == nullptr) {
      for (int64_t j = 0; j < y.cols; ++j) row[j] = f.value(row[j]);
    } else {
      for (int64_t j = 0; j < y.cols; ++j) row[j] = f.value(row[j] + bias[j]);
    }
  }
}

// Products with packed weights add the bias, and compute one activation. The rest is left.
template <class F>
cpu::Finish finish_of(const float* bias) {
  return {.bias = bias, .relu = std::is_same_v<F, activations::Relu>};
}
template <class F>
void activate_rest(Matrix<float> y, F f) {
  if constexpr (!std::is_same_v<F, activations::Relu> && !std::is_same_v<F, activations::None>)
    add_bias_and_activate(y, nullptr, f);
}

// y = f(scale * y + bias) for the rows of a tile.
template <class F>
void scale_and_activate(Matrix<float> y, const float* scale, const float* bias, F f) {
  for (int64_t r = 0; r < y.rows; ++r) {
    float* __restrict row = y.row(r);
    for (int64_t j = 0; j < y.cols; ++j) row[j] = f.value(scale[j] * row[j] + bias[j]);
  }
}

// dy *= f'(y), and the sum of the result over rows is added to bias_gradient (unless null).
template <class F>
void undo_activation(Matrix<float> dy, Matrix<const float> y, float* bias_gradient, F f) {
  for (int64_t r = 0; r < dy.rows; ++r) {
    float* __restrict d = dy.row(r);
    const float* __restrict v = y.row(r);
    for (int64_t j = 0; j < dy.cols; ++j) d[j] *= f.slope(v[j]);
    if (bias_gradient != nullptr) simd::add(d, bias_gradient, dy.cols);
  }
}

// y = x w^T, one column
void multiply_by_row(Matrix<const float> x, const float* weight, Matrix<float> y) {
  for (int64_t r = 0; r < x.rows; ++r) *y.row(r) = simd::dot(x.row(r), weight, x.cols);
}

// dW = beta dW + dz^T x
void backward_to_weight(Matrix<const float> dz, Matrix<const float> x, float beta, Matrix<float> dw,
                        DType type) {
  if (dw.rows > 1)
    return cpu::gemm_block(Transpose::kYes, Transpose::kNo, 1.0f, dz, x, beta, dw, type);
  if (beta == 0.0f) std::fill_n(dw.data, dw.cols, 0.0f);
  for (int64_t r = 0; r < x.rows; ++r) simd::add_scaled(*dz.row(r), x.row(r), dw.data, dw.cols);
}

}  // namespace

bool Linear::sums_weights_by_group() const { return units_ * inputs_ <= kMostFloatsPerGroup; }

void Linear::prepare(Device device, int64_t max_rows) {
  products_.clear();  // planned for where values were before
  if (!padded() || units_ == 1) return;
  padded_weights_ = Buffer<uint16_t>(device, out().stride, input_stride());
  padded_gradients_ = Buffer<float>(device, out().stride, input_stride());
  if (!copies_input()) return;
  copied_input_ = Buffer<uint16_t>(device, max_rows, input_stride());
  if (write(0) != Write::kNone)
    copied_input_gradient_ = Buffer<uint16_t>(device, max_rows, input_stride());
}

int64_t Linear::workspace_floats(Device device, int64_t max_rows) const {
  const int64_t groups = most_row_groups(device, max_rows);
  if (device == Device::kCuda) return groups * (units_ > 1 ? out().stride : 2 * in(0).stride);
  return groups * (units_ + (sums_weights_by_group() ? units_ * inputs_ : 0));
}

// One group: tile by tile, so that the gradient of a tile serves all three purposes while it is
// in the cache.
template <class F>
void Linear::backward_rows(const OpContext& pass, int64_t begin, int64_t end, float* bias_gradient,
                           float* weight_gradient, F f) const {
  const Matrix<float> dy(out().gradient(), pass.rows, units_), y(out().value(), pass.rows, units_);
  if (bias_gradient != nullptr) std::fill_n(bias_gradient, units_, 0.0f);
  const int64_t step = std::min(row_groups(pass.rows).rows_each, kMostBackwardRows);
  for (int64_t tile = begin; tile < end; tile += step) {
    const int64_t tile_end = std::min(tile + step, end);
    const Matrix<float> dz = dy.row_range(tile, tile_end);
    undo_activation<F>(dz, y.row_range(tile, tile_end), bias_gradient, f);
    if (write(0) != Write::kNone) backward_to_input(pass, dz, tile, tile_end);
    if (weight_gradient == nullptr) continue;
    backward_to_weight(dz, input(pass).row_range(tile, tile_end), tile == begin ? 0.0f : 1.0f,
                       {weight_gradient, units_, inputs_}, product_type());
  }
}

// dx = dz W
void Linear::backward_to_input(const OpContext& pass, Matrix<const float> dz, int64_t begin,
                               int64_t end) const {
  const Matrix<float> dx =
      Matrix<float>(in(0).gradient(), pass.rows, inputs_).row_range(begin, end);
  const float* weight = pass.parameters + weight_;
  const bool add = write(0) == Write::kAdd;
  if (units_ > 1) return packed_back_.multiply(dz, dx, add);
  with_write(write(0), [&](auto add) {
    for (int64_t r = 0; r < dz.rows; ++r) {
      const float d = *dz.row(r);
      float* __restrict row = dx.row(r);
      for (int64_t j = 0; j < inputs_; ++j) row[j] = (add ? row[j] : 0.0f) + d * weight[j];
    }
  });
}

void Linear::pack(const OpContext& pass, cpu::PackedWeights& to, Transpose transpose,
                  cpu::Rows rows) const {
  to.assign(pass.context, {pass.parameters + weight_, units_, inputs_}, transpose, product_type(),
            rows);
}

void Linear::freeze(const float* parameters) {
  const Matrix<const float> weights(parameters + weight_, units_, inputs_);
  frozen_ = true;
  if (product_type() != DType::kInt8) return packed_.assign(weights, product_type());
  EMBLEM_REQUIRE(!int8_.ranges.empty(), "layer ", name_, " has no ranges of inputs for int8");
  packed_.assign_int8(weights, int8_.ranges);
  int8_bias_.assign(packed_.offsets().begin(), packed_.offsets().end());
  for (int64_t u = 0; bias_ >= 0 && u < units_; ++u) int8_bias_[u] += parameters[bias_ + u];
}

// The rows of x, which begin at `row`, times some units, on the calling thread; by `copies` of all
// rows if there are such.
void Linear::predict_part(const OpContext& pass, Matrix<const float> x, int64_t row, int64_t unit,
                          int64_t units, const cpu::CopiedRows* copies, int64_t next_unit) const {
  const Matrix<float> y =
      Matrix<float>(out().value(), pass.rows, units_).block(row, unit, x.rows, units);
  const float* bias = bias_ < 0 ? nullptr : pass.parameters + bias_ + unit;
  with_fused_activation(activation_, [&](auto f) {
    if (units_ == 1) {
      multiply_by_row(x, pass.parameters + weight_, y);
      return add_bias_and_activate(y, bias, f);
    }
    if (packed_.is_int8()) {
      packed_.multiply(x, unit, y);
      return scale_and_activate(y, packed_.scales().data() + unit, int8_bias_.data() + unit, f);
    }
    const cpu::Finish finish = finish_of<decltype(f)>(bias);
    if (copies != nullptr) {
      packed_.multiply(*copies, unit, y, finish, next_unit);
    } else {
      packed_.multiply(x, unit, y, false, finish);
    }
    activate_rest(y, f);
  });
}

// This layer and those that follow it, part by part of the rows.
void Linear::predict_chain(const OpContext& pass, int64_t rows_each) {
  parallel_for(pass.context, pass.rows, rows_each, [&](int64_t begin, int64_t end) {
    for (Linear* layer = this; layer != nullptr; layer = layer->follower_) {
      if (layer != this && !layer->can_follow()) break;
      layer->predict_part(pass, layer->input(pass).row_range(begin, end), begin, 0, layer->units_,
                          nullptr, 0);
    }
  });
  for (Linear* layer = follower_; layer != nullptr && layer->can_follow(); layer = layer->follower_)
    layer->computed_ = true;
}

// Predictions are computed differently from training: the result of a row does not depend on other
// rows, and few rows are fast.
void Linear::predict(const OpContext& pass) {
  if (std::exchange(computed_, false)) return;
  for (Linear* layer = follower_; layer != nullptr; layer = layer->follower_)
    layer->computed_ = false;  // an error may have left it
  if (units_ == 1) return predict_chain(pass, std::min(kRowsOfAUnit, tile_rows(pass.rows)));
  if (int8_.records) int8_.recorder.add(input(pass));
  if (!frozen_) pack(pass, packed_, Transpose::kNo, cpu::Rows::kAny);
  const int64_t threads = pass.context.threads == nullptr ? 1 : pass.context.threads->threads();
  const Cut cut = cut_for(packed_, pass.rows, threads);
  if (cut.units_each >= units_) return predict_chain(pass, cut.rows_each);
  const Matrix<const float> x = input(pass);
  const cpu::CopiedRows copies =
      cut.shares_copies ? packed_.copy(pass.context, x) : cpu::CopiedRows();
  parallel_for(pass.context, units_, cut.units_each, [&](int64_t unit, int64_t end) {
    predict_part(pass, x, 0, unit, end - unit, cut.shares_copies ? &copies : nullptr,
                 unit + threads * cut.units_each);
  });
}

void Linear::forward_cpu(const OpContext& pass) {
  if (pass.phase == Phase::kEval) return predict(pass);
  const Matrix<const float> x = input(pass);
  const Matrix<float> y(out().value(), pass.rows, units_);
  const float* bias = bias_ < 0 ? nullptr : pass.parameters + bias_;
  if (units_ > 1) pack(pass, packed_, Transpose::kNo);
  with_fused_activation(activation_, [&](auto f) {
    parallel_for(pass.context, pass.rows, tile_rows(pass.rows), [&](int64_t begin, int64_t end) {
      const Matrix<float> tile = y.row_range(begin, end);
      if (units_ == 1) {
        multiply_by_row(x.row_range(begin, end), pass.parameters + weight_, tile);
        return add_bias_and_activate(tile, bias, f);
      }
      packed_.multiply(x.row_range(begin, end), 0, tile, false, finish_of<decltype(f)>(bias));
      activate_rest(tile, f);
    });
  });
}

void Linear::backward_cpu(const OpContext& pass) {
  const RowGroups groups = row_groups(pass.rows);
  float* bias_parts = pass.workspace;
  float* weight_parts = bias_parts + groups.count * units_;
  if (units_ > 1 && write(0) != Write::kNone) pack(pass, packed_back_, Transpose::kYes);
  with_fused_activation(activation_, [&](auto f) {
    parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
      const int64_t group = begin / groups.rows_each;
      backward_rows(pass, begin, end, bias_ < 0 ? nullptr : bias_parts + group * units_,
                    sums_weights_by_group() ? weight_parts + group * units_ * inputs_ : nullptr, f);
    });
  });
  if (bias_ >= 0)
    sum_groups(pass.context, bias_parts, groups.count, units_, pass.gradients + bias_);
  if (sums_weights_by_group()) {
    sum_groups(pass.context, weight_parts, groups.count, units_ * inputs_,
               pass.gradients + weight_);
  } else {
    gemm(pass.context, Transpose::kYes, Transpose::kNo, 1.0f,
         Matrix<const float>(out().gradient(), pass.rows, units_), input(pass), 0.0f,
         {pass.gradients + weight_, units_, inputs_}, product_type());
  }
}

}  // namespace emblem
