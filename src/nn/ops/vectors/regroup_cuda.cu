#include "nn/ops/launch.cuh"
#include "nn/ops/vectors/regroup.h"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace {

// A thread for a column of a row.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    first_elements_kernel(int64_t rows, int64_t cols, const int32_t* offsets, const T* x, T* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= rows * cols) return;
  const int64_t r = cuda::row_of(i, cols), first = offsets[r];
  y[i] =
      first < offsets[r + 1] ? x[first * cols + cuda::column_of(i, cols)] : cuda::narrow<T>(0.0f);
}

// A thread for a column of an element.
template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    first_gradients_kernel(int64_t elements, int64_t cols, const int32_t* offsets,
                           const int32_t* row_of, const T* dy, T* dx) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= elements * cols) return;
  const int64_t e = cuda::row_of(i, cols);
  const int32_t r = row_of[e];
  const bool is_first = r >= 0 && offsets[r] == e;
  if (kAdd && !is_first) return;
  cuda::put<kAdd>(dx[i], is_first ? cuda::widen(dy[r * cols + cuda::column_of(i, cols)]) : 0.0f);
}

}  // namespace

void RegroupVectors::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, size(pass), cuda::Copy{}, out().value<T>(),
              static_cast<const T*>(in(0).value<T>()));
  });
  if (out().space != Space{}) cuda::clear_padding(pass, out().dtype, out().cols, out().value_data);
}

void RegroupVectors::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, write(0), size(pass), cuda::Copy{}, in(0).gradient<T>(),
              static_cast<const T*>(out().gradient<T>()));
  });
  if (in(0).space != Space{} && write(0) == Write::kOverwrite)
    cuda::clear_padding(pass, in(0).dtype, in(0).cols, in(0).gradient_data);
}

void FirstElements::forward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols;
  if (pass.batch_rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    first_elements_kernel<T><<<cuda::blocks_of(pass.batch_rows * cols, cuda::kThreads),
                               cuda::kThreads, 0, pass.context.stream>>>(
        pass.batch_rows, cols, pass.offsets, in(0).value<T>(), out().value<T>());
    cuda::check_launch("launching a gather of first elements");
  });
}

void FirstElements::backward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols;
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      first_gradients_kernel<decltype(add)::value, T>
          <<<cuda::blocks_of(pass.rows * cols, cuda::kThreads), cuda::kThreads, 0,
             pass.context.stream>>>(pass.rows, cols, pass.offsets, pass.row_of, out().gradient<T>(),
                                    in(0).gradient<T>());
      cuda::check_launch("launching the gradient of first elements");
    });
  });
}

}  // namespace emblem
