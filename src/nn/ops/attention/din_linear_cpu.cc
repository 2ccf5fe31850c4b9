#include <algorithm>

#include "core/memory/host_vector.h"
#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/attention/din_linear.h"
#include "nn/ops/dense/activation.h"

namespace emblem {
namespace {

constexpr int64_t kMostGroups = 16;                    // groups of rows whose gradients are summed
constexpr int64_t kMostGroupFloats = 8 * 1024 * 1024;  // floats of the gradients of all groups
constexpr int64_t kFewElements = 8;                    // that a thread should have in predictions

}  // namespace

struct DinLinear::Scratch {
  HostVector<float> products, gradients;  // [elements of a tile, inputs]
  float* weight_gradient = nullptr;       // weight gradient of the group
  bool empty = true;                      // nothing was added to it yet
};

// Rows of the batch, whose elements are side by side.
RowGroups DinLinear::groups(int64_t elements, int64_t batch_rows) const {
  const int64_t most = std::clamp<int64_t>(kMostGroupFloats / (units_ * inputs()), 1, kMostGroups);
  const int64_t wanted = std::clamp<int64_t>(elements / 256, 1, most);
  const int64_t each = std::max<int64_t>(1, (batch_rows + wanted - 1) / wanted);
  return {each, (batch_rows + each - 1) / each};
}

int64_t DinLinear::workspace_floats(Device device, int64_t max_rows) const {
  if (device == Device::kCpu)
    return std::min(kMostGroups, std::max<int64_t>(1, max_rows / 256)) * units_ * inputs();
  return most_row_groups(device, max_batch_rows()) * units_;
}

void DinLinear::freeze(const float* parameters) {
  HostVector<float> element(units_ * inputs()), row(units_ * n_);
  for (int64_t u = 0; u < units_; ++u) {
    const float* weight = parameters + weight_ + u * 4 * m_;
    for (int64_t j = 0; j < inputs(); ++j) element[u * inputs() + j] = fold().of_element(weight, j);
    for (int64_t j = 0; j < n_; ++j) row[u * n_ + j] = fold().of_row(weight, j);
  }
  packed_elements_.assign({element.data(), units_, inputs()}, product_type());
  packed_rows_.assign({row.data(), units_, n_}, product_type());
  frozen_ = true;
}

void DinLinear::fold_weights(const OpContext& pass) {
  parallel_for(pass.context, units_, rows_per_chunk(4 * m_), [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const float* weight = pass.parameters + weight_ + u * 4 * m_;
      float *element = element_weights_.data() + u * inputs(), *row = row_weights_.data() + u * n_;
      for (int64_t j = 0; j < inputs(); ++j) element[j] = fold().of_element(weight, j);
      for (int64_t j = 0; j < n_; ++j) row[j] = fold().of_row(weight, j);
    }
  });
  const cpu::Rows rows = pass.phase == Phase::kEval ? cpu::Rows::kAny : cpu::Rows::kMany;
  packed_elements_.assign(pass.context, {element_weights_.data(), units_, inputs()}, Transpose::kNo,
                          product_type(), rows);
  packed_rows_.assign(pass.context, {row_weights_.data(), units_, n_}, Transpose::kNo,
                      product_type(), rows);
}

// row_part = q (Wq + Wd)^T + b
void DinLinear::multiply_rows(const OpContext& pass) {
  const Matrix<const float> q(in(0).value(), pass.batch_rows, n_);
  const Matrix<float> part(row_part_.data(), pass.batch_rows, units_);
  parallel_for(pass.context, pass.batch_rows, 128, [&](int64_t begin, int64_t end) {
    packed_rows_.multiply(q.row_range(begin, end), part.row_range(begin, end));
    for (int64_t r = begin; bias_ >= 0 && r < end; ++r)
      simd::add(pass.parameters + bias_, part.row(r), units_);
  });
}

// [s, q * s] of elements [begin, end).
void DinLinear::make_products(const OpContext& pass, int64_t begin, int64_t end,
                              Matrix<float> to) const {
  for (int64_t e = begin; e < end; ++e) {
    const float* __restrict q = in(0).value() + pass.row_of[e] * n_;
    const float* __restrict s = in(1).value() + e * m_;
    float* __restrict row = to.row(e - begin);
    std::copy_n(s, m_, row);
    for (int64_t j = 0; j < n_; ++j) row[m_ + j] = q[j] * s[j];
  }
}

// Predictions are computed differently from training: the result of an element does not depend on
// other rows.
void DinLinear::forward_cpu(const OpContext& pass) {
  const bool predicts = pass.phase == Phase::kEval;
  if (!predicts || !frozen_) fold_weights(pass);
  multiply_rows(pass);
  const Matrix<float> y(out().value(), pass.rows, units_);
  const int64_t threads = pass.context.threads == nullptr ? 1 : pass.context.threads->threads();
  const int64_t each = !predicts ? tile_rows(pass.rows)
                                 : std::clamp((pass.rows + threads - 1) / threads, kFewElements,
                                              tile_rows(pass.rows));
  with_fused_activation(activation_, [&](auto f) {
    parallel_for(pass.context, pass.rows, each, [&](int64_t begin, int64_t end) {
      HostVector<float> scratch((end - begin) * inputs());
      const Matrix<float> products(scratch.data(), end - begin, inputs()),
          tile = y.row_range(begin, end);
      make_products(pass, begin, end, products);
      packed_elements_.multiply(products, tile);
      for (int64_t e = begin; e < end; ++e) {
        float* __restrict row = y.row(e);
        const float* __restrict part = row_part_.data() + pass.row_of[e] * units_;
        for (int64_t j = 0; j < units_; ++j) row[j] = f.value(row[j] + part[j]);
      }
    });
  });
}

// dz = dy f'(y), in place, and its sums over the elements of rows [begin, end).
template <class F>
void DinLinear::undo_activation(const OpContext& pass, int64_t begin, int64_t end, F f) {
  for (int64_t r = begin; r < end; ++r) {
    float* __restrict sum = row_part_gradient_.data() + r * units_;
    std::fill_n(sum, units_, 0.0f);
    for (int64_t e = pass.offsets[r]; e < pass.offsets[r + 1]; ++e) {
      float* __restrict dz = out().gradient() + e * units_;
      const float* __restrict y = out().value() + e * units_;
      for (int64_t j = 0; j < units_; ++j) {
        dz[j] *= f.slope(y[j]);
        sum[j] += dz[j];
      }
    }
  }
}

// Goes from the gradients of [s, q * s] of the elements of rows [begin, end) to those of s and
// q, whose product with the weights of rows has been written.
void DinLinear::spread(const OpContext& pass, int64_t begin, int64_t end,
                       Matrix<const float> gradients) {
  const int64_t first = pass.offsets[begin];
  for (int64_t r = begin; r < end; ++r) {
    const float* __restrict q = in(0).value() + r * n_;
    for (int64_t e = pass.offsets[r]; e < pass.offsets[r + 1]; ++e) {
      const float* __restrict s = in(1).value() + e * m_;
      const float* __restrict d = gradients.row(e - first);
      if (write(0) != Write::kNone) {
        float* __restrict dq = in(0).gradient() + r * n_;
        for (int64_t j = 0; j < n_; ++j) dq[j] += d[m_ + j] * s[j];
      }
      with_write(write(1), [&](auto add) {
        float* __restrict ds = in(1).gradient() + e * m_;
        for (int64_t j = 0; j < m_; ++j) ds[j] = (add ? ds[j] : 0.0f) + d[j];
        for (int64_t j = 0; j < n_; ++j) ds[j] += d[m_ + j] * q[j];
      });
    }
  }
}

// Rows [begin, end) and their elements, while these are in the cache.
void DinLinear::backward_rows(const OpContext& pass, int64_t begin, int64_t end, Scratch& scratch) {
  with_fused_activation(activation_, [&](auto f) { undo_activation(pass, begin, end, f); });
  if (write(0) != Write::kNone) {
    cpu::gemm_block(
        Transpose::kNo, Transpose::kNo, 1.0f,
        Matrix<float>(row_part_gradient_.data(), pass.batch_rows, units_).row_range(begin, end),
        {row_weights_.data(), units_, n_}, write(0) == Write::kAdd ? 1.0f : 0.0f,
        Matrix<float>(in(0).gradient(), pass.batch_rows, n_).row_range(begin, end), product_type());
  }
  const int64_t first = pass.offsets[begin], last = pass.offsets[end];
  if (first == last) return;
  const Matrix<const float> dz =
      Matrix<const float>(out().gradient(), pass.rows, units_).row_range(first, last);
  scratch.products.resize((last - first) * inputs());
  const Matrix<float> products(scratch.products.data(), last - first, inputs());
  make_products(pass, first, last, products);
  cpu::gemm_block(Transpose::kYes, Transpose::kNo, 1.0f, dz, products, scratch.empty ? 0.0f : 1.0f,
                  {scratch.weight_gradient, units_, inputs()}, product_type());
  scratch.empty = false;
  if (write(0) == Write::kNone && write(1) == Write::kNone) return;
  scratch.gradients.resize((last - first) * inputs());
  const Matrix<float> gradients(scratch.gradients.data(), last - first, inputs());
  cpu::gemm_block(Transpose::kNo, Transpose::kNo, 1.0f, dz,
                  {element_weights_.data(), units_, inputs()}, 0.0f, gradients, product_type());
  spread(pass, begin, end, gradients);
}

// The gradients of the weights of rows and of the bias.
void DinLinear::sum_row_gradients(const OpContext& pass) {
  const Matrix<const float> part(row_part_gradient_.data(), pass.batch_rows, units_);
  if (pass.batch_rows == 0) {
    std::fill_n(row_gradients_.data(), units_ * n_, 0.0f);
  } else {
    gemm(pass.context, Transpose::kYes, Transpose::kNo, 1.0f, part,
         Matrix<const float>(in(0).value(), pass.batch_rows, n_), 0.0f,
         {row_gradients_.data(), units_, n_}, product_type());
  }
  if (bias_ < 0) return;
  parallel_for(pass.context, units_, 64, [&](int64_t begin, int64_t end) {
    float* sum = pass.gradients + bias_;
    std::fill(sum + begin, sum + end, 0.0f);
    for (int64_t r = 0; r < pass.batch_rows; ++r)
      simd::add(part.row(r) + begin, sum + begin, end - begin);
  });
}

void DinLinear::backward_cpu(const OpContext& pass) {
  const RowGroups groups = this->groups(pass.rows, pass.batch_rows);
  const int64_t size = units_ * inputs(), step = tile_rows(pass.rows);
  parallel_for(pass.context, pass.batch_rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    scratch.weight_gradient = pass.workspace + begin / groups.rows_each * size;
    for (int64_t r = begin; r < end;) {
      int64_t last = r + 1;
      while (last < end && pass.offsets[last + 1] - pass.offsets[r] <= step && last - r < step)
        ++last;
      backward_rows(pass, r, last, scratch);
      r = last;
    }
    if (scratch.empty) std::fill_n(scratch.weight_gradient, size, 0.0f);
  });
  sum_groups(pass.context, pass.workspace, groups.count, size, element_gradients_.data());
  sum_row_gradients(pass);
  parallel_for(pass.context, units_, rows_per_chunk(4 * m_), [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      for (int64_t column = 0; column < 4 * m_; ++column)
        pass.gradients[weight_ + u * 4 * m_ + column] = fold().gradient(
            element_gradients_.data() + u * inputs(), row_gradients_.data() + u * n_, column);
    }
  });
}

}  // namespace emblem
