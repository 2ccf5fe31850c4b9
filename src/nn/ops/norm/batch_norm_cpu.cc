#include <cmath>

#include "core/threads/thread_pool.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/norm/norm.h"

namespace emblem {
namespace {

// mean[j] and square[j] (sum of squared deviations from it) over some rows.
void column_moments(Matrix<const float> x, float* mean, float* square) {
  std::fill_n(mean, x.cols, 0.0f);
  std::fill_n(square, x.cols, 0.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* __restrict row = x.row(r);
    for (int64_t j = 0; j < x.cols; ++j) mean[j] += row[j];
  }
  const float share = 1.0f / static_cast<float>(x.rows);
  for (int64_t j = 0; j < x.cols; ++j) mean[j] *= share;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* __restrict row = x.row(r);
    for (int64_t j = 0; j < x.cols; ++j) square[j] += (row[j] - mean[j]) * (row[j] - mean[j]);
  }
}

// What deviations from the mean are multiplied by; `scale` may be null.
std::vector<float> scales(const float* scale, const float* inverse, int64_t cols) {
  std::vector<float> factors(inverse, inverse + cols);
  for (int64_t j = 0; scale != nullptr && j < cols; ++j) factors[j] *= scale[j];
  return factors;
}

}  // namespace

template <class F>
void BatchNorm::sum_gradients(int64_t begin, int64_t end, float* part, F f) {
  const float* __restrict mean = moments_.data(), * __restrict inverse = mean + cols_;
  const int64_t cols = cols_;
  std::fill_n(part, 2 * cols, 0.0f);
  float* __restrict plain = part, * __restrict scaled = part + cols;
  for (int64_t r = begin; r < end; ++r) {
    float* __restrict dz = out().gradient() + r * cols;
    const float* __restrict x = in(0).value() + r * cols, * __restrict y = out().value() + r * cols;
    for (int64_t j = 0; j < cols; ++j) dz[j] *= f.slope(y[j]);  // alone: GCC makes vectors of it
    for (int64_t j = 0; j < cols; ++j) {
      plain[j] += dz[j];
      scaled[j] += dz[j] * (x[j] - mean[j]);
    }
  }
  for (int64_t j = 0; j < cols; ++j) scaled[j] *= inverse[j];
}

void BatchNorm::forward_cpu(const OpContext& pass) {
  from_batch_ = pass.phase == Phase::kTrain && pass.rows > 1;
  if (from_batch_)
    measure(pass);
  else
    use_statistics(pass);
  const float *mean = moments_.data(), *inverse = mean + cols_;
  const std::vector<float> factors = scales(scale(pass), inverse, cols_);
  const float *factor = factors.data(), *shift = this->shift(pass);
  with_fused_activation(activation_, [&](auto f) {
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* __restrict x = in(0).value() + r * cols_;
        float* __restrict y = out().value() + r * cols_;
        for (int64_t j = 0; j < cols_; ++j) {
          y[j] = f.value((x[j] - mean[j]) * factor[j] + (shift == nullptr ? 0.0f : shift[j]));
        }
      }
    });
  });
}

void BatchNorm::backward_cpu(const OpContext& pass) {
  const RowGroups groups = row_groups(pass.rows);
  // Sums per group and in total: those over rows of dz and of dz times the normalized input,
  // which are the gradients of shift and scale.
  float* sums = pass.workspace;
  float* parts = sums + 2 * cols_;
  with_fused_activation(activation_, [&](auto f) {
    parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
      sum_gradients(begin, end, parts + begin / groups.rows_each * 2 * cols_, f);
    });
  });
  sum_groups(pass.context, parts, groups.count, 2 * cols_, sums);
  if (is_affine()) {
    std::copy_n(sums, cols_, pass.gradients + shift_);
    std::copy_n(sums + cols_, cols_, pass.gradients + scale_);
  }
  backward_to_input(pass, sums);
}

void BatchNorm::use_statistics(const OpContext& pass) {
  for (int64_t j = 0; j < cols_; ++j) {
    moments_.data()[j] = pass.statistics[running_mean_ + j];
    moments_.data()[cols_ + j] =
        1.0f / std::sqrt(pass.statistics[running_variance_ + j] + kEpsilon);
  }
}

// The mean and variance of the batch, from those of groups of rows, and the statistics.
void BatchNorm::measure(const OpContext& pass) {
  const RowGroups groups = row_groups(pass.rows);
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    float* part = pass.workspace + begin / groups.rows_each * 2 * cols_;
    column_moments({in(0).value() + begin * cols_, end - begin, cols_}, part, part + cols_);
  });
  const double rows = static_cast<double>(pass.rows);
  for (int64_t j = 0; j < cols_; ++j) {
    double mean = 0.0, square = 0.0, seen = 0.0;
    for (int64_t group = 0; group < groups.count; ++group) {
      const float* part = pass.workspace + group * 2 * cols_;
      const double count =
          static_cast<double>(std::min(groups.rows_each, pass.rows - group * groups.rows_each));
      const double apart = part[j] - mean;
      square += part[cols_ + j] + apart * apart * seen * count / (seen + count);
      seen += count;
      mean += apart * count / seen;
    }
    moments_.data()[j] = static_cast<float>(mean);
    moments_.data()[cols_ + j] = static_cast<float>(1.0 / std::sqrt(square / rows + kEpsilon));
    float& running_mean = pass.statistics[running_mean_ + j];
    float& running_variance = pass.statistics[running_variance_ + j];
    running_mean += kMomentum * (static_cast<float>(mean) - running_mean);
    running_variance += kMomentum * (static_cast<float>(square / (rows - 1.0)) - running_variance);
  }
}

void BatchNorm::backward_to_input(const OpContext& pass, const float* sums) {
  // Where the statistics were used they are constants, and nothing flows through them.
  const float share = from_batch_ ? 1.0f / static_cast<float>(pass.rows) : 0.0f;
  const float *mean = moments_.data(), *inverse = mean + cols_;
  const std::vector<float> factors = scales(scale(pass), inverse, cols_);
  const float* factor = factors.data();
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float *dz = out().gradient() + r * cols_, *x = in(0).value() + r * cols_;
        float* __restrict dx = in(0).gradient() + r * cols_;
        for (int64_t j = 0; j < cols_; ++j) {
          const float normalized = (x[j] - mean[j]) * inverse[j];
          const float through = dz[j] - share * (sums[j] + normalized * sums[cols_ + j]);
          dx[j] = (add ? dx[j] : 0.0f) + factor[j] * through;
        }
      }
    });
  });
}

}  // namespace emblem
