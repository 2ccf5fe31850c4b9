#include "nn/ops/dense/activation.h"
#include "nn/ops/launch.cuh"
#include "nn/ops/norm/norm.h"

namespace emblem {
namespace {

// Rows that count: of a sequence, those that are no padding.
struct CountedRows {
  int64_t rows;
  const int32_t* real;  // null: all
  __device__ int64_t operator()() const {
    return real == nullptr ? rows : min(rows, static_cast<int64_t>(*real));
  }
};

// Moments of each group of rows: its mean and the sum of squared deviations from it, per column.
// parts[group] is [2, cols].
template <class T>
__global__ void __launch_bounds__(cuda::kWarp* cuda::kSumRows)
    column_moments_kernel(CountedRows counted, int64_t cols, int64_t rows_each, const T* x,
                          float* parts) {
  __shared__ float means[cuda::kWarp];
  const int64_t j = static_cast<int64_t>(blockIdx.x) * cuda::kWarp + threadIdx.x;
  const int64_t begin = blockIdx.y * rows_each, end = min(begin + rows_each, counted());
  if (begin >= end) return;
  float sum = 0.0f, square = 0.0f;
  if (j < cols) {
    for (int64_t r = begin + threadIdx.y; r < end; r += cuda::kSumRows)
      sum += cuda::widen(x[r * cols + j]);
  }
  sum = cuda::sum_over_y(sum);
  if (threadIdx.y == 0) means[threadIdx.x] = sum / static_cast<float>(end - begin);
  __syncthreads();
  const float mean = means[threadIdx.x];
  if (j < cols) {
    for (int64_t r = begin + threadIdx.y; r < end; r += cuda::kSumRows) {
      const float apart = cuda::widen(x[r * cols + j]) - mean;
      square += apart * apart;
    }
  }
  square = cuda::sum_over_y(square);
  if (threadIdx.y == 0 && j < cols) {
    parts[blockIdx.y * 2 * cols + j] = mean;
    parts[(blockIdx.y * 2 + 1) * cols + j] = square;
  }
}

struct Statistics {
  float *running_mean, *running_variance;
};

// The moments of the batch from those of its groups, and the statistics.
__global__ void __launch_bounds__(cuda::kThreads)
    join_moments_kernel(CountedRows counted, int64_t cols, int64_t rows_each, int64_t groups,
                        const float* parts, float* moments, Statistics statistics) {
  const int64_t j = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (j >= cols) return;
  const int64_t rows = counted();
  double mean = 0.0, square = 0.0, seen = 0.0;
  for (int64_t group = 0; group < groups && group * rows_each < rows; ++group) {
    const double count = static_cast<double>(min(rows_each, rows - group * rows_each));
    const double apart = parts[group * 2 * cols + j] - mean;
    square += parts[(group * 2 + 1) * cols + j] + apart * apart * seen * count / (seen + count);
    seen += count;
    mean += apart * count / seen;
  }
  moments[j] = static_cast<float>(mean);
  moments[cols + j] = static_cast<float>(1.0 / sqrt(square / seen + BatchNorm::kEpsilon));
  float &running_mean = statistics.running_mean[j],
        &running_variance = statistics.running_variance[j];
  running_mean += BatchNorm::kMomentum * (static_cast<float>(mean) - running_mean);
  running_variance +=
      BatchNorm::kMomentum * (static_cast<float>(square / (seen - 1.0)) - running_variance);
}

__global__ void __launch_bounds__(cuda::kThreads)
    copy_statistics_kernel(int64_t cols, Statistics statistics, float* moments) {
  const int64_t j = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (j >= cols) return;
  moments[j] = statistics.running_mean[j];
  moments[cols + j] = 1.0f / sqrtf(statistics.running_variance[j] + BatchNorm::kEpsilon);
}

template <class F>
struct Normalize {
  const float *moments, *scale, *shift;
  int64_t cols;
  __device__ float operator()(int64_t i, float x) const {
    const int64_t j = cuda::column_of(i, cols);
    const float normalized = (x - moments[j]) * moments[cols + j];
    return F::value(scale == nullptr ? normalized : normalized * scale[j] + shift[j]);
  }
};

// dz = dy f'(y), in place, and what it adds to the gradients of shift and scale.
template <class F, class T>
struct ColumnGradients {
  const T *x, *y;
  const float* moments;
  T* dz;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[2]) const {
    const int64_t i = r * cols + j;
    sums[0] = cuda::widen(dz[i]) * F::slope(cuda::widen(y[i]));
    sums[1] = sums[0] * (cuda::widen(x[i]) - moments[j]) * moments[cols + j];
    dz[i] = cuda::narrow<T>(sums[0]);
  }
};

struct ToInput {
  const float *moments, *scale, *shift_gradient, *scale_gradient;
  CountedRows counted;
  bool from_batch;  // else the moments are constants, and nothing flows through them
  int64_t cols;
  __device__ float operator()(int64_t i, float dz, float x) const {
    const int64_t j = cuda::column_of(i, cols), rows = counted();
    if (i >= rows * cols) return 0.0f;
    const float share = from_batch ? 1.0f / static_cast<float>(rows) : 0.0f;
    const float inverse = moments[cols + j], normalized = (x - moments[j]) * inverse;
    return (scale == nullptr ? 1.0f : scale[j]) * inverse *
           (dz - share * (shift_gradient[j] + normalized * scale_gradient[j]));
  }
};

}  // namespace

void BatchNorm::forward_cuda(const OpContext& pass) {
  const cudaStream_t stream = pass.context.stream;
  const Statistics statistics{pass.statistics + running_mean_, pass.statistics + running_variance_};
  // Few elements are not padded: where there is one alone, pass.rows is 1.
  from_batch_ = pass.phase == Phase::kTrain && pass.rows > 1;
  const CountedRows counted{pass.rows, pass.real_rows};
  const unsigned blocks = cuda::blocks_of(cols_, cuda::kThreads);
  if (from_batch_) {
    const RowGroups groups = device_row_groups(pass.rows);
    cuda::with_type(out().dtype, [&](auto type) {
      column_moments_kernel<decltype(type)>
          <<<cuda::column_blocks(cols_, groups.count), cuda::column_threads(), 0, stream>>>(
              counted, cols_, groups.rows_each, in(0).value<decltype(type)>(), pass.workspace);
    });
    cuda::check_launch("launching the moments of groups of rows");
    join_moments_kernel<<<blocks, cuda::kThreads, 0, stream>>>(counted, cols_, groups.rows_each,
                                                               groups.count, pass.workspace,
                                                               moments_.data(), statistics);
  } else {
    copy_statistics_kernel<<<blocks, cuda::kThreads, 0, stream>>>(cols_, statistics,
                                                                  moments_.data());
  }
  cuda::check_launch("launching the moments of a batch");
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_fused_activation(activation_, [&](auto f) {
      cuda::map(pass.context, Write::kOverwrite, pass.rows * cols_,
                Normalize<decltype(f)>{moments_.data(), scale(pass), shift(pass), cols_},
                out().value<T>(), in(0).value<T>());
    });
  });
}

void BatchNorm::backward_cuda(const OpContext& pass) {
  float* unused = pass.workspace + 2 * cols_ * device_row_groups(pass.rows).count;
  float *shift_gradient = is_affine() ? pass.gradients + shift_ : unused,
        *scale_gradient = is_affine() ? pass.gradients + scale_ : unused + cols_;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_fused_activation(activation_, [&](auto f) {
      cuda::column_sums<2>(
          pass.context, pass.rows, cols_,
          ColumnGradients<decltype(f), T>{in(0).value<T>(), out().value<T>(), moments_.data(),
                                          out().gradient<T>(), cols_},
          pass.workspace, {{shift_gradient, scale_gradient}});
    });
    cuda::map(pass.context, write(0), pass.rows * cols_,
              ToInput{moments_.data(),
                      scale(pass),
                      shift_gradient,
                      scale_gradient,
                      {pass.rows, pass.real_rows},
                      from_batch_,
                      cols_},
              in(0).gradient<T>(), out().gradient<T>(), in(0).value<T>());
  });
}

}  // namespace emblem
