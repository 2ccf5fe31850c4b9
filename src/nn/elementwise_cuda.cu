#include "nn/elementwise.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

template <class F>
struct Activate {
  __device__ float operator()(int64_t, float x) const { return F::value(x); }
};
template <class F>
struct Deactivate {
  __device__ float operator()(int64_t, float dy, float kept) const { return dy * F::slope(kept); }
};
struct Copy {
  __device__ float operator()(int64_t, float x) const { return x; }
};
struct Product {
  __device__ float operator()(int64_t, float a, float b) const { return a * b; }
};
struct Scaled {
  float factor;
  __device__ float operator()(int64_t, float x) const { return factor * x; }
};

__global__ void __launch_bounds__(cuda::kThreads)
    row_sum_kernel(int64_t rows, int64_t cols, const float* x, float* y) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) sum += x[r * cols + j];
  sum = cuda::warp_sum(sum);
  if (threadIdx.x == 0) y[r] = sum;
}

template <bool kAdd>
__global__ void __launch_bounds__(cuda::kThreads)
    spread_row_kernel(int64_t rows, int64_t cols, const float* dy, float* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  const float d = dy[r];
  float* row = dx + r * cols;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) row[j] = (kAdd ? row[j] : 0.0f) + d;
}

}  // namespace

void ActivationOp::forward_cuda(const Pass& pass) {
  const int64_t count = pass.rows * out().cols;
  with_activation(activation_, [&](auto f) {
    cuda::map(pass.context, Write::kOverwrite, count, Activate<decltype(f)>{}, out().value,
              in(0).value);
  });
}

void ActivationOp::backward_cuda(const Pass& pass) {
  const int64_t count = pass.rows * out().cols;
  with_activation(activation_, [&](auto f) {
    cuda::map(pass.context, write(0), count, Deactivate<decltype(f)>{}, in(0).gradient,
              out().gradient, f.kFromOutput ? out().value : in(0).value);
  });
}

void Sum::forward_cuda(const Pass& pass) {
  const int64_t count = pass.rows * out().cols;
  for (size_t part = 0; part < inputs().size(); ++part) {
    cuda::map(pass.context, part == 0 ? Write::kOverwrite : Write::kAdd, count, Copy{}, out().value,
              in(part).value);
  }
}

void Sum::backward_cuda(const Pass& pass) {
  for (size_t part = 0; part < inputs().size(); ++part) {
    cuda::map(pass.context, write(part), pass.rows * out().cols, Copy{}, in(part).gradient,
              out().gradient);
  }
}

void Multiply::forward_cuda(const Pass& pass) {
  cuda::map(pass.context, Write::kOverwrite, pass.rows * out().cols, Product{}, out().value,
            in(0).value, in(1).value);
}

void Multiply::backward_cuda(const Pass& pass) {
  for (size_t side : {0, 1}) {
    cuda::map(pass.context, write(side), pass.rows * out().cols, Product{}, in(side).gradient,
              out().gradient, in(1 - side).value);
  }
}

void Scale::forward_cuda(const Pass& pass) {
  cuda::map(pass.context, Write::kOverwrite, pass.rows * out().cols, Scaled{factor_}, out().value,
            in(0).value);
}

void Scale::backward_cuda(const Pass& pass) {
  cuda::map(pass.context, write(0), pass.rows * out().cols, Scaled{factor_}, in(0).gradient,
            out().gradient);
}

void RowSum::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  row_sum_kernel<<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
      pass.rows, in(0).cols, in(0).value, out().value);
  cuda::check_launch("launching a sum over columns");
}

void RowSum::backward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  with_write(write(0), [&](auto add) {
    spread_row_kernel<decltype(add)::value>
        <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
            pass.rows, in(0).cols, out().gradient, in(0).gradient);
    cuda::check_launch("launching the gradient of a sum over columns");
  });
}

}  // namespace emblem
