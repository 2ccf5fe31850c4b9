#include "nn/ops/elementwise.h"
#include "nn/ops/launch.cuh"

namespace emblem {
namespace {

template <class F>
struct Activate {
  F f;
  __device__ float operator()(int64_t, float x) const { return f.value(x); }
};
template <class F>
struct Deactivate {
  F f;
  __device__ float operator()(int64_t, float dy, float kept) const { return dy * f.slope(kept); }
};
struct Product {
  __device__ float operator()(int64_t, float a, float b) const { return a * b; }
};
struct Scaled {
  float factor;
  __device__ float operator()(int64_t, float x) const { return factor * x; }
};

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    row_sum_kernel(int64_t rows, int64_t cols, const T* x, T* y) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) sum += cuda::widen(x[r * cols + j]);
  sum = cuda::warp_sum(sum);
  if (threadIdx.x == 0) y[r] = cuda::narrow<T>(sum);
}

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    spread_row_kernel(int64_t rows, int64_t cols, const T* dy, T* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  const float d = cuda::widen(dy[r]);
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) cuda::put<kAdd>(dx[r * cols + j], d);
}

}  // namespace

void ActivationOp::forward_cuda(const OpContext& pass) {
  const int64_t count = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(activation_, [&](auto f) {
      cuda::map(pass.context, Write::kOverwrite, count, Activate<decltype(f)>{f}, out().value<T>(),
                in(0).value<T>());
    });
  });
}

void ActivationOp::backward_cuda(const OpContext& pass) {
  const int64_t count = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(activation_, [&](auto f) {
      cuda::map(pass.context, write(0), count, Deactivate<decltype(f)>{f}, in(0).gradient<T>(),
                out().gradient<T>(), f.kFromOutput ? out().value<T>() : in(0).value<T>());
    });
  });
}

void Sum::forward_cuda(const OpContext& pass) {
  const int64_t count = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t part = 0; part < inputs().size(); ++part) {
      cuda::map(pass.context, part == 0 ? Write::kOverwrite : Write::kAdd, count, cuda::Copy{},
                out().value<T>(), in(part).value<T>());
    }
  });
}

void Sum::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t part = 0; part < inputs().size(); ++part) {
      cuda::map(pass.context, write(part), pass.rows * out().cols, cuda::Copy{},
                in(part).gradient<T>(), out().gradient<T>());
    }
  });
}

void Multiply::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().cols, Product{}, out().value<T>(),
              in(0).value<T>(), in(1).value<T>());
  });
}

void Multiply::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t side : {0, 1}) {
      cuda::map(pass.context, write(side), pass.rows * out().cols, Product{},
                in(side).gradient<T>(), out().gradient<T>(), in(1 - side).value<T>());
    }
  });
}

void Scale::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().cols, Scaled{factor_},
              out().value<T>(), in(0).value<T>());
  });
}

void Scale::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, write(0), pass.rows * out().cols, Scaled{factor_}, in(0).gradient<T>(),
              out().gradient<T>());
  });
}

void RowSum::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const int64_t cols = in(0).cols / out().cols, sums = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    row_sum_kernel<<<cuda::row_blocks(sums), cuda::row_threads(), 0, pass.context.stream>>>(
        sums, cols, in(0).value<const T>(), out().value<T>());
    cuda::check_launch("launching a sum over columns");
  });
}

void RowSum::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const int64_t cols = in(0).cols / out().cols, sums = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      spread_row_kernel<decltype(add)::value>
          <<<cuda::row_blocks(sums), cuda::row_threads(), 0, pass.context.stream>>>(
              sums, cols, out().gradient<const T>(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a sum over columns");
    });
  });
}

}  // namespace emblem
