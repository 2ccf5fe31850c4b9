#include "nn/ops/dense/activation.h"
#include "nn/ops/dense/trained_activation.h"
#include "nn/ops/launch.cuh"

namespace emblem {
namespace {

struct Rectify {
  const float* slope;
  __device__ float operator()(int64_t, float x) const { return x > 0.0f ? x : *slope * x; }
};
struct Unrectify {
  const float* slope;
  __device__ float operator()(int64_t, float dy, float x) const {
    return x > 0.0f ? dy : *slope * dy;
  }
};

template <class T>
struct ToSlope {
  const T *x, *dy;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[1]) const {
    const float value = cuda::widen(x[r * cols + j]);
    sums[0] = value > 0.0f ? 0.0f : value * cuda::widen(dy[r * cols + j]);
  }
};

// One warp.
__global__ void sum_kernel(int64_t count, const float* values, float* to) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < count; i += cuda::kWarp) sum += values[i];
  sum = cuda::warp_sum(sum);
  if (threadIdx.x == 0) *to = sum;
}

struct Gate {
  const float* alpha;
  int64_t cols;
  __device__ float operator()(int64_t i, float x, float z) const {
    const float p = sigmoid_inline(z);
    return x * (p + alpha[cuda::column_of(i, cols)] * (1.0f - p));
  }
};
struct ToNormalized {
  const float* alpha;
  int64_t cols;
  __device__ float operator()(int64_t i, float dy, float x, float z) const {
    const float p = sigmoid_inline(z);
    return dy * x * (1.0f - alpha[cuda::column_of(i, cols)]) * p * (1.0f - p);
  }
};

template <class T>
struct ToAlpha {
  const T *x, *z, *dy;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[1]) const {
    const int64_t i = r * cols + j;
    sums[0] = cuda::widen(dy[i]) * cuda::widen(x[i]) * (1.0f - sigmoid_inline(cuda::widen(z[i])));
  }
};

}  // namespace

void Prelu::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().cols,
              Rectify{pass.parameters + slope_}, out().value<T>(), in(0).value<T>());
  });
}

void Prelu::backward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    float *by_column = pass.workspace, *parts = by_column + cols;
    cuda::column_sums<1>(pass.context, pass.rows, cols,
                         ToSlope<T>{in(0).value<T>(), out().gradient<T>(), cols}, parts,
                         {{by_column}});
    sum_kernel<<<1, cuda::kWarp, 0, pass.context.stream>>>(cols, by_column,
                                                           pass.gradients + slope_);
    cuda::check_launch("launching the gradient of a slope");
    cuda::map(pass.context, write(0), pass.rows * cols, Unrectify{pass.parameters + slope_},
              in(0).gradient<T>(), out().gradient<T>(), in(0).value<T>());
  });
}

void DiceGate::forward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * cols,
              Gate{pass.parameters + alpha_, cols}, out().value<T>(), in(0).value<T>(),
              in(1).value<T>());
  });
}

void DiceGate::backward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols, count = pass.rows * cols;
  const float* alpha = pass.parameters + alpha_;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *z = in(1).value<T>(), *dy = out().gradient<T>();
    cuda::column_sums<1>(pass.context, pass.rows, cols, ToAlpha<T>{x, z, dy, cols}, pass.workspace,
                         {{pass.gradients + alpha_}});
    cuda::map(pass.context, write(0), count, Gate{alpha, cols}, in(0).gradient<T>(), dy, z);
    cuda::map(pass.context, write(1), count, ToNormalized{alpha, cols}, in(1).gradient<T>(), dy, x,
              z);
  });
}

}  // namespace emblem
