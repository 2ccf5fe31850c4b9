// A warp for each number.
#include "nn/ops/dense/activation.h"
#include "nn/ops/lanes.cuh"
#include "nn/ops/launch.cuh"
#include "nn/ops/vectors/autodis.h"

namespace emblem {
namespace {

struct AutodisShape {
  int64_t numbers, features, channels, dim;
  float temperature, keep;
};
struct Trained {
  const float *weight, *matrix, *vectors;
};

__device__ float leaky(float x) { return x < 0.0f ? Autodis::kNegativeSlope * x : x; }

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    autodis_kernel(AutodisShape s, Trained trained, const T* x, float* shares, T* y) {
  const int64_t number = cuda::row_of_warp();
  if (number >= s.numbers) return;
  const int64_t f = number % s.features;
  const float value = cuda::widen(x[number]);
  const float *w = trained.weight + f * s.channels,
              *m = trained.matrix + f * s.channels * s.channels,
              *e = trained.vectors + f * s.channels * s.dim;
  float* share = shares + number * s.channels;
  float most = -INFINITY, sum = 0.0f;
  for (int64_t c = threadIdx.x; c < s.channels; c += cuda::kWarp) {
    float score = s.keep * leaky(w[c] * value);
    for (int64_t k = 0; k < s.channels; ++k) score += m[c * s.channels + k] * leaky(w[k] * value);
    share[c] = score / s.temperature;
    most = fmaxf(most, share[c]);
  }
  most = cuda::warp_max(most);
  for (int64_t c = threadIdx.x; c < s.channels; c += cuda::kWarp)
    sum += share[c] = exp_inline(share[c] - most);
  sum = cuda::warp_sum(sum);
  for (int64_t c = threadIdx.x; c < s.channels; c += cuda::kWarp) share[c] /= sum;
  __syncwarp();
  for (int64_t j = threadIdx.x; j < s.dim; j += cuda::kWarp) {
    float total = 0.0f;
    for (int64_t c = 0; c < s.channels; ++c) total += share[c] * e[c * s.dim + j];
    y[number * s.dim + j] = cuda::narrow<T>(total);
  }
}

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    autodis_gradient_kernel(AutodisShape s, Trained trained, const T* x, const float* shares,
                            const T* dy, float* score_gradients, float* hidden_gradients,
                            Write write, T* dx) {
  const int64_t number = cuda::row_of_warp();
  if (number >= s.numbers) return;
  const int64_t f = number % s.features;
  const float value = cuda::widen(x[number]);
  const float *w = trained.weight + f * s.channels,
              *m = trained.matrix + f * s.channels * s.channels,
              *e = trained.vectors + f * s.channels * s.dim;
  const float* share = shares + number * s.channels;
  float *scores = score_gradients + number * s.channels,
        *hidden = hidden_gradients + number * s.channels;
  float mean = 0.0f, to_input = 0.0f;
  for (int64_t c = threadIdx.x; c < s.channels; c += cuda::kWarp) {
    float slope = 0.0f;
    for (int64_t j = 0; j < s.dim; ++j)
      slope += e[c * s.dim + j] * cuda::widen(dy[number * s.dim + j]);
    scores[c] = slope;
    mean += share[c] * slope;
  }
  mean = cuda::warp_sum(mean);
  for (int64_t c = threadIdx.x; c < s.channels; c += cuda::kWarp)
    scores[c] = share[c] * (scores[c] - mean) / s.temperature;
  __syncwarp();
  for (int64_t k = threadIdx.x; k < s.channels; k += cuda::kWarp) {
    float slope = s.keep * scores[k];
    for (int64_t c = 0; c < s.channels; ++c) slope += m[c * s.channels + k] * scores[c];
    hidden[k] = w[k] * value < 0.0f ? Autodis::kNegativeSlope * slope : slope;
    to_input += hidden[k] * w[k];
  }
  to_input = cuda::warp_sum(to_input);
  if (threadIdx.x != 0 || write == Write::kNone) return;
  if (write == Write::kAdd)
    cuda::put<true>(dx[number], to_input);
  else
    cuda::put<false>(dx[number], to_input);
}

template <class T>
struct ToWeight {
  AutodisShape s;
  const float* hidden_gradients;
  const T* x;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[1]) const {
    sums[0] = hidden_gradients[r * s.features * s.channels + j] *
              cuda::widen(x[r * s.features + j / s.channels]);
  }
};
template <class T>
struct ToMatrix {
  AutodisShape s;
  const float *score_gradients, *weight;
  const T* x;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[1]) const {
    const int64_t row = j / s.channels, f = row / s.channels, k = j % s.channels;
    sums[0] = score_gradients[r * s.features * s.channels + row] *
              leaky(weight[f * s.channels + k] * cuda::widen(x[r * s.features + f]));
  }
};
template <class T>
struct ToVectors {
  AutodisShape s;
  const float* shares;
  const T* dy;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[1]) const {
    const int64_t row = j / s.dim, f = row / s.channels;
    sums[0] = shares[r * s.features * s.channels + row] *
              cuda::widen(dy[(r * s.features + f) * s.dim + j % s.dim]);
  }
};

}  // namespace

void Autodis::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const AutodisShape shape{pass.rows * features_, features_,
                           options_.channels,     options_.dim,
                           options_.temperature,  options_.keep_prob};
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    autodis_kernel<<<cuda::row_blocks(shape.numbers), cuda::row_threads(), 0,
                     pass.context.stream>>>(
        shape, {pass.parameters + weight_, pass.parameters + matrix_, pass.parameters + vectors_},
        in(0).value<const T>(), shares_.data(), out().value<T>());
    cuda::check_launch("launching AutoDis");
  });
}

void Autodis::backward_cuda(const OpContext& pass) {
  const AutodisShape shape{pass.rows * features_, features_,
                           options_.channels,     options_.dim,
                           options_.temperature,  options_.keep_prob};
  const int64_t rows = features_ * options_.channels;  // rows of the parameters
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *dy = out().gradient<T>();
    if (pass.rows > 0) {
      autodis_gradient_kernel<<<cuda::row_blocks(shape.numbers), cuda::row_threads(), 0,
                                pass.context.stream>>>(
          shape, {pass.parameters + weight_, pass.parameters + matrix_, pass.parameters + vectors_},
          x, shares_.data(), dy, score_gradients_.data(), hidden_gradients_.data(), write(0),
          in(0).gradient<T>());
      cuda::check_launch("launching the gradient of AutoDis");
    }
    cuda::column_sums<1>(pass.context, pass.rows, rows,
                         ToWeight<T>{shape, hidden_gradients_.data(), x}, pass.workspace,
                         {{pass.gradients + weight_}});
    cuda::column_sums<1>(pass.context, pass.rows, rows * options_.channels,
                         ToMatrix<T>{shape, score_gradients_.data(), pass.parameters + weight_, x},
                         pass.workspace, {{pass.gradients + matrix_}});
    cuda::column_sums<1>(pass.context, pass.rows, rows * options_.dim,
                         ToVectors<T>{shape, shares_.data(), dy}, pass.workspace,
                         {{pass.gradients + vectors_}});
  });
}

}  // namespace emblem
