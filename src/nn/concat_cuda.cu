#include "core/buffer.h"
#include "nn/concat.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

// to = (or +=) from, rows of `cols` columns, kWidth at a time.
template <int kWidth, bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    transfer_kernel(Matrix<const T> from, Matrix<T> to) {
  const int64_t in_row = to.cols / kWidth;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= to.rows * in_row) return;
  const int64_t r = i / in_row, j = i % in_row * kWidth;
  const T* source = from.data + r * from.stride + j;
  T* target = to.data + r * to.stride + j;
  if constexpr (kWidth == 4) {
    cuda::Four<T> values;
    if (kAdd) values = cuda::load_four(target);
    cuda::map_four<kAdd>(cuda::Copy{}, i, values, cuda::load_four(source));
    cuda::store_four(target, values);
  } else {
    cuda::put<kAdd>(*target, cuda::widen(*source));
  }
}

template <class T>
bool in_fours(Matrix<T> m) {
  return m.cols % 4 == 0 && m.stride % 4 == 0 &&
         reinterpret_cast<uintptr_t>(m.data) % (4 * sizeof(T)) == 0;
}

template <class T>
void transfer(const Context& context, Write write, Matrix<const T> from, Matrix<T> to) {
  if (to.rows == 0) return;
  with_write(write, [&](auto add) {
    constexpr bool kAdd = decltype(add)::value;
    const bool wide = in_fours(from) && in_fours(to);
    const unsigned blocks = cuda::blocks_of(to.rows * to.cols / (wide ? 4 : 1), cuda::kThreads);
    if (wide) {
      transfer_kernel<4, kAdd><<<blocks, cuda::kThreads, 0, context.stream>>>(from, to);
    } else {
      transfer_kernel<1, kAdd><<<blocks, cuda::kThreads, 0, context.stream>>>(from, to);
    }
    cuda::check_launch("launching a copy of columns");
  });
}

}  // namespace

void Concat::forward_cuda(const Pass& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Matrix<T> y(out().value<T>(), pass.rows, out().cols);
    for_each_part([&](size_t part, int64_t column) {
      const Matrix<const T> x(in(part).value<T>(), pass.rows, in(part).cols);
      transfer(pass.context, Write::kOverwrite, x, y.block(0, column, pass.rows, x.cols));
    });
  });
}

void Concat::backward_cuda(const Pass& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Matrix<const T> dy(out().gradient<T>(), pass.rows, out().cols);
    for_each_part([&](size_t part, int64_t column) {
      const Matrix<T> dx(in(part).gradient<T>(), pass.rows, in(part).cols);
      transfer(pass.context, write(part), dy.block(0, column, pass.rows, dx.cols), dx);
    });
  });
}

void Slice::forward_cuda(const Pass& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Matrix<const T> x(in(0).value<T>(), pass.rows, in(0).cols);
    const Matrix<T> y(out().value<T>(), pass.rows, out().cols);
    transfer(pass.context, Write::kOverwrite, x.block(0, first_, pass.rows, y.cols), y);
  });
}

void Slice::backward_cuda(const Pass& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Matrix<T> dx(in(0).gradient<T>(), pass.rows, in(0).cols);
    const Matrix<const T> dy(out().gradient<T>(), pass.rows, out().cols);
    if (write(0) == Write::kOverwrite)
      detail::zero(pass.context, dx.data, pass.rows * dx.cols * sizeof(T));
    transfer(pass.context, Write::kAdd, dy, dx.block(0, first_, pass.rows, dy.cols));
  });
}

}  // namespace emblem
