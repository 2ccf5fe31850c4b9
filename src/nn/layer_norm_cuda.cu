#include "nn/activation.h"
#include "nn/launch.cuh"
#include "nn/norm.h"

namespace emblem {
namespace {

template <class F>
__global__ void __launch_bounds__(cuda::kThreads)
    layer_norm_kernel(int64_t rows, int64_t cols, const float* x, const float* scale,
                      const float* shift, float* y, float* moments) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  x += r * cols, y += r * cols;
  float sum = 0.0f, square = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) sum += x[j];
  const float mean = cuda::warp_sum(sum) / static_cast<float>(cols);
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) square += (x[j] - mean) * (x[j] - mean);
  const float inverse =
      1.0f / sqrtf(cuda::warp_sum(square) / static_cast<float>(cols) + LayerNorm::kEpsilon);
  if (threadIdx.x == 0) {
    moments[2 * r] = mean;
    moments[2 * r + 1] = inverse;
  }
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    y[j] = F::value((x[j] - mean) * inverse * scale[j] + shift[j]);
}

// dz = dy f'(y), in place, and what it adds to the gradients of shift and scale.
template <class F>
struct Gradients {
  const float *x, *y, *moments;
  float* dz;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[2]) const {
    const int64_t i = r * cols + j;
    dz[i] *= F::slope(y[i]);
    sums[0] = dz[i];
    sums[1] = dz[i] * (x[i] - moments[2 * r]) * moments[2 * r + 1];
  }
};

template <bool kAdd>
__global__ void __launch_bounds__(cuda::kThreads)
    layer_norm_to_input_kernel(int64_t rows, int64_t cols, const float* x, const float* dz,
                               const float* scale, const float* moments, float* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  x += r * cols, dz += r * cols, dx += r * cols;
  const float mean = moments[2 * r], inverse = moments[2 * r + 1];
  float plain = 0.0f, scaled = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) {
    plain += dz[j] * scale[j];
    scaled += dz[j] * scale[j] * (x[j] - mean) * inverse;
  }
  plain = cuda::warp_sum(plain) / static_cast<float>(cols);
  scaled = cuda::warp_sum(scaled) / static_cast<float>(cols);
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) {
    const float through = dz[j] * scale[j] - plain - (x[j] - mean) * inverse * scaled;
    dx[j] = (kAdd ? dx[j] : 0.0f) + inverse * through;
  }
}

}  // namespace

void LayerNorm::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  with_activation(activation_, [&](auto f) {
    layer_norm_kernel<decltype(f)>
        <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
            pass.rows, cols_, in(0).value, pass.parameters + scale_, pass.parameters + shift_,
            out().value, moments_.data());
    cuda::check_launch("launching a layer norm");
  });
}

void LayerNorm::backward_cuda(const Pass& pass) {
  with_activation(activation_, [&](auto f) {
    cuda::column_sums<2>(
        pass.context, pass.rows, cols_,
        Gradients<decltype(f)>{in(0).value, out().value, moments_.data(), out().gradient, cols_},
        pass.workspace, {{pass.gradients + shift_, pass.gradients + scale_}});
  });
  if (pass.rows == 0) return;
  with_write(write(0), [&](auto add) {
    layer_norm_to_input_kernel<decltype(add)::value>
        <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
            pass.rows, cols_, in(0).value, out().gradient, pass.parameters + scale_,
            moments_.data(), in(0).gradient);
    cuda::check_launch("launching the gradient of a layer norm");
  });
}

}  // namespace emblem
