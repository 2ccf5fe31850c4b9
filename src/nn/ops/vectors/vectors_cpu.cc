#include <algorithm>

#include "core/threads/thread_pool.h"
#include "nn/ops/vectors/vectors.h"

namespace emblem {
namespace {

constexpr auto kNo = Transpose::kNo, kYes = Transpose::kYes;

float beta_of(Write write) { return write == Write::kAdd ? 1.0f : 0.0f; }

// Row r as a list of vectors.
Matrix<float> vectors(float* data, int64_t r, int64_t count, int64_t dim) {
  return {data + r * count * dim, count, dim};
}

}  // namespace

void MixVectors::forward_cpu(const OpContext& pass) {
  const Matrix<const float> weight(pass.parameters + weight_, n_, m_);
  parallel_for(pass.context, pass.rows, rows_per_chunk(in(0).cols),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   cpu::gemm_block(kYes, kNo, 1.0f, weight, vectors(in(0).value(), r, n_, dim_),
                                   0.0f, vectors(out().value(), r, m_, dim_));
               });
}

void MixVectors::backward_cpu(const OpContext& pass) {
  const Matrix<const float> weight(pass.parameters + weight_, n_, m_);
  const RowGroups groups = row_groups(pass.rows);
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    const Matrix<float> sum(pass.workspace + begin / groups.rows_each * n_ * m_, n_, m_);
    for (int64_t r = begin; r < end; ++r) {
      const Matrix<float> dy = vectors(out().gradient(), r, m_, dim_);
      cpu::gemm_block(kNo, kYes, 1.0f, vectors(in(0).value(), r, n_, dim_), dy,
                      r == begin ? 0.0f : 1.0f, sum);
      if (write(0) == Write::kNone) continue;
      cpu::gemm_block(kNo, kNo, 1.0f, weight, dy, beta_of(write(0)),
                      vectors(in(0).gradient(), r, n_, dim_));
    }
  });
  sum_groups(pass.context, pass.workspace, groups.count, n_ * m_, pass.gradients + weight_);
}

void VectorProducts::forward_cpu(const OpContext& pass) {
  parallel_for(pass.context, pass.rows, rows_per_chunk(in(0).cols),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   cpu::gemm_block(kNo, kYes, 1.0f, vectors(in(0).value(), r, n_, dim_),
                                   vectors(in(1).value(), r, k_, dim_), 0.0f,
                                   vectors(out().value(), r, n_, k_));
               });
}

void VectorProducts::backward_cpu(const OpContext& pass) {
  parallel_for(pass.context, pass.rows, rows_per_chunk(in(0).cols),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const Matrix<float> d = vectors(out().gradient(), r, n_, k_);
                   if (write(0) != Write::kNone)
                     cpu::gemm_block(kNo, kNo, 1.0f, d, vectors(in(1).value(), r, k_, dim_),
                                     beta_of(write(0)), vectors(in(0).gradient(), r, n_, dim_));
                   if (write(1) != Write::kNone)
                     cpu::gemm_block(kYes, kNo, 1.0f, d, vectors(in(0).value(), r, n_, dim_),
                                     beta_of(write(1)), vectors(in(1).gradient(), r, k_, dim_));
                 }
               });
}

// to [n m, dim]: x_i * x0_j
void CinLayer::products(int64_t row, float* to) const {
  const float *x = in(0).value() + row * n_ * dim_, *x0 = in(1).value() + row * m_ * dim_;
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j < m_; ++j, to += dim_)
      for (int64_t d = 0; d < dim_; ++d) to[d] = x[i * dim_ + d] * x0[j * dim_ + d];
  }
}

void CinLayer::forward_cpu(const OpContext& pass) {
  const Matrix<const float> weight(pass.parameters + weight_, units_, n_ * m_);
  const float* bias = pass.parameters + bias_;
  parallel_for(pass.context, pass.rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<float> products(n_ * m_ * dim_);
    for (int64_t r = begin; r < end; ++r) {
      this->products(r, products.data());
      const Matrix<float> y = vectors(out().value(), r, units_, dim_);
      for (int64_t u = 0; u < units_; ++u) std::fill_n(y.row(u), dim_, bias[u]);
      cpu::gemm_block(kNo, kNo, 1.0f, weight, {products.data(), n_ * m_, dim_}, 1.0f, y);
    }
  });
}

void CinLayer::backward_cpu(const OpContext& pass) {
  const int64_t pairs = n_ * m_;
  const Matrix<const float> weight(pass.parameters + weight_, units_, pairs);
  const RowGroups groups = row_groups(pass.rows);
  float *weight_parts = pass.workspace, *bias_parts = weight_parts + groups.count * units_ * pairs;
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    const int64_t group = begin / groups.rows_each;
    const Matrix<float> sum(weight_parts + group * units_ * pairs, units_, pairs);
    float* bias_sum = bias_parts + group * units_;
    std::fill_n(bias_sum, units_, 0.0f);
    std::vector<float> products(pairs * dim_), gradients(pairs * dim_);
    for (int64_t r = begin; r < end; ++r) {
      const Matrix<float> dy = vectors(out().gradient(), r, units_, dim_);
      for (int64_t u = 0; u < units_; ++u)
        for (int64_t d = 0; d < dim_; ++d) bias_sum[u] += dy.row(u)[d];
      this->products(r, products.data());
      cpu::gemm_block(kNo, kYes, 1.0f, dy, {products.data(), pairs, dim_}, r == begin ? 0.0f : 1.0f,
                      sum);
      cpu::gemm_block(kYes, kNo, 1.0f, weight, dy, 0.0f, {gradients.data(), pairs, dim_});
      for (const size_t side : {0, 1}) {
        const int64_t own = side == 0 ? n_ : m_, others = side == 0 ? m_ : n_;
        const float* other = in(1 - side).value() + r * others * dim_;
        with_write(write(side), [&](auto add) {
          float* dx = in(side).gradient() + r * own * dim_;
          for (int64_t e = 0; e < own * dim_; ++e) {
            float value = 0.0f;
            for (int64_t o = 0; o < others; ++o) {
              const int64_t pair = side == 0 ? e / dim_ * m_ + o : o * m_ + e / dim_;
              value += gradients[pair * dim_ + e % dim_] * other[o * dim_ + e % dim_];
            }
            dx[e] = (add ? dx[e] : 0.0f) + value;
          }
        });
      }
    }
  });
  sum_groups(pass.context, weight_parts, groups.count, units_ * pairs, pass.gradients + weight_);
  sum_groups(pass.context, bias_parts, groups.count, units_, pass.gradients + bias_);
}

}  // namespace emblem
