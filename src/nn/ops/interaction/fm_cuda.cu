#include "nn/ops/interaction/interaction.h"
#include "nn/ops/launch.cuh"

namespace emblem {
namespace {

// A thread takes one position of all vectors of a row.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    fm_forward_kernel(int64_t rows, int64_t cols, int64_t dim, const T* x, T* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= rows * dim) return;
  const T* row = x + i / dim * cols + i % dim;
  float sum = 0.0f, squares = 0.0f;
  for (int64_t v = 0; v < cols; v += dim) {
    const float value = cuda::widen(row[v]);
    sum += value;
    squares += value * value;
  }
  y[i] = cuda::narrow<T>(0.5f * (sum * sum - squares));
}

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    fm_backward_kernel(int64_t rows, int64_t cols, int64_t dim, const T* x, const T* dy, T* dx) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= rows * dim) return;
  const int64_t first = i / dim * cols + i % dim, end = (i / dim + 1) * cols;
  const float d = cuda::widen(dy[i]);
  float sum = 0.0f;
  for (int64_t v = first; v < end; v += dim) sum += cuda::widen(x[v]);
  for (int64_t v = first; v < end; v += dim) cuda::put<kAdd>(dx[v], d * (sum - cuda::widen(x[v])));
}

}  // namespace

void FactorizationMachine::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    fm_forward_kernel<T>
        <<<cuda::blocks_of(pass.rows * dim_, cuda::kThreads), cuda::kThreads, 0,
           pass.context.stream>>>(pass.rows, in(0).cols, dim_, in(0).value<T>(), out().value<T>());
    cuda::check_launch("launching a factorization machine");
  });
}

void FactorizationMachine::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      fm_backward_kernel<decltype(add)::value, T>
          <<<cuda::blocks_of(pass.rows * dim_, cuda::kThreads), cuda::kThreads, 0,
             pass.context.stream>>>(pass.rows, in(0).cols, dim_, in(0).value<T>(),
                                    out().gradient<T>(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a factorization machine");
    });
  });
}

}  // namespace emblem
