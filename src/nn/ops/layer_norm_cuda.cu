#include "nn/ops/activation.h"
#include "nn/ops/launch.cuh"
#include "nn/ops/norm.h"

namespace emblem {
namespace {

template <class F, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    layer_norm_kernel(int64_t rows, int64_t cols, const T* x, const float* scale,
                      const float* shift, T* y, float* moments) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  x += r * cols, y += r * cols;
  float sum = 0.0f, square = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) sum += cuda::widen(x[j]);
  const float mean = cuda::warp_sum(sum) / static_cast<float>(cols);
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) {
    const float apart = cuda::widen(x[j]) - mean;
    square += apart * apart;
  }
  const float inverse =
      1.0f / sqrtf(cuda::warp_sum(square) / static_cast<float>(cols) + LayerNorm::kEpsilon);
  if (threadIdx.x == 0) {
    moments[2 * r] = mean;
    moments[2 * r + 1] = inverse;
  }
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    y[j] = cuda::narrow<T>(F::value((cuda::widen(x[j]) - mean) * inverse * scale[j] + shift[j]));
}

// dz = dy f'(y), in place, and what it adds to the gradients of shift and scale.
template <class F, class T>
struct Gradients {
  const T *x, *y;
  const float* moments;
  T* dz;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[2]) const {
    const int64_t i = r * cols + j;
    sums[0] = cuda::widen(dz[i]) * F::slope(cuda::widen(y[i]));
    sums[1] = sums[0] * (cuda::widen(x[i]) - moments[2 * r]) * moments[2 * r + 1];
    dz[i] = cuda::narrow<T>(sums[0]);
  }
};

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    layer_norm_to_input_kernel(int64_t rows, int64_t cols, const T* x, const T* dz,
                               const float* scale, const float* moments, T* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  x += r * cols, dz += r * cols, dx += r * cols;
  const float mean = moments[2 * r], inverse = moments[2 * r + 1];
  const auto normalized = [&](int64_t j) { return (cuda::widen(x[j]) - mean) * inverse; };
  float plain = 0.0f, scaled = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) {
    const float d = cuda::widen(dz[j]) * scale[j];
    plain += d;
    scaled += d * normalized(j);
  }
  plain = cuda::warp_sum(plain) / static_cast<float>(cols);
  scaled = cuda::warp_sum(scaled) / static_cast<float>(cols);
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) {
    const float through = cuda::widen(dz[j]) * scale[j] - plain - normalized(j) * scaled;
    cuda::put<kAdd>(dx[j], inverse * through);
  }
}

}  // namespace

void LayerNorm::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_fused_activation(activation_, [&](auto f) {
      layer_norm_kernel<decltype(f), T>
          <<<cuda::row_blocks(vectors(pass)), cuda::row_threads(), 0, pass.context.stream>>>(
              vectors(pass), cols_, in(0).value<T>(), pass.parameters + scale_,
              pass.parameters + shift_, out().value<T>(), moments_.data());
      cuda::check_launch("launching a layer norm");
    });
  });
}

void LayerNorm::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_fused_activation(activation_, [&](auto f) {
      cuda::column_sums<2>(pass.context, vectors(pass), cols_,
                           Gradients<decltype(f), T>{in(0).value<T>(), out().value<T>(),
                                                     moments_.data(), out().gradient<T>(), cols_},
                           pass.workspace, {{pass.gradients + shift_, pass.gradients + scale_}});
    });
    if (pass.rows == 0) return;
    with_write(write(0), [&](auto add) {
      layer_norm_to_input_kernel<decltype(add)::value, T>
          <<<cuda::row_blocks(vectors(pass)), cuda::row_threads(), 0, pass.context.stream>>>(
              vectors(pass), cols_, in(0).value<T>(), out().gradient<T>(), pass.parameters + scale_,
              moments_.data(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a layer norm");
    });
  });
}

}  // namespace emblem
