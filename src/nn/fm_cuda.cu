#include "nn/interaction.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

// A thread takes one position of all vectors of a row.
__global__ void __launch_bounds__(cuda::kThreads)
    fm_forward_kernel(int64_t rows, int64_t cols, int64_t dim, const float* x, float* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= rows * dim) return;
  const float* row = x + i / dim * cols + i % dim;
  float sum = 0.0f, squares = 0.0f;
  for (int64_t v = 0; v < cols; v += dim) {
    sum += row[v];
    squares += row[v] * row[v];
  }
  y[i] = 0.5f * (sum * sum - squares);
}

template <bool kAdd>
__global__ void __launch_bounds__(cuda::kThreads)
    fm_backward_kernel(int64_t rows, int64_t cols, int64_t dim, const float* x, const float* dy,
                       float* dx) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= rows * dim) return;
  const int64_t first = i / dim * cols + i % dim;
  float sum = 0.0f;
  for (int64_t v = 0; v < cols; v += dim) sum += x[first + v];
  for (int64_t v = first; v < first + cols - i % dim; v += dim)
    dx[v] = (kAdd ? dx[v] : 0.0f) + dy[i] * (sum - x[v]);
}

}  // namespace

void FactorizationMachine::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  fm_forward_kernel<<<cuda::blocks_of(pass.rows * dim_, cuda::kThreads), cuda::kThreads, 0,
                      pass.context.stream>>>(pass.rows, in(0).cols, dim_, in(0).value, out().value);
  cuda::check_launch("launching a factorization machine");
}

void FactorizationMachine::backward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  with_write(write(0), [&](auto add) {
    fm_backward_kernel<decltype(add)::value><<<cuda::blocks_of(pass.rows * dim_, cuda::kThreads),
                                               cuda::kThreads, 0, pass.context.stream>>>(
        pass.rows, in(0).cols, dim_, in(0).value, out().gradient, in(0).gradient);
    cuda::check_launch("launching the gradient of a factorization machine");
  });
}

}  // namespace emblem
