// In fp32, and where vectors do not fit tensor cores, each thread computes elements of one row's
// output.
#include "nn/ops/interaction/cin_tensor.cuh"
#include "nn/ops/vectors/vectors.h"

namespace emblem {
namespace {

constexpr int kCinTile = 4;  // outputs of a thread

using Shape = cuda::CinShape;

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    cin_kernel(Shape s, const float* weight, const float* bias, const T* x, const T* x0, T* y) {
  const int64_t tiles = (s.units + kCinTile - 1) / kCinTile;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= s.rows * tiles * s.dim) return;
  const int64_t d = t % s.dim, first = t / s.dim % tiles * kCinTile, r = t / s.dim / tiles;
  float sums[kCinTile];
#pragma unroll
  for (int u = 0; u < kCinTile; ++u) sums[u] = first + u < s.units ? bias[first + u] : 0.0f;
  for (int64_t i = 0; i < s.n; ++i) {
    const float left = cuda::widen(x[(r * s.n + i) * s.dim + d]);
    for (int64_t j = 0; j < s.m; ++j) {
      const float product = left * cuda::widen(x0[(r * s.m + j) * s.dim + d]);
#pragma unroll
      for (int u = 0; u < kCinTile; ++u)
        if (first + u < s.units) sums[u] += weight[((first + u) * s.n + i) * s.m + j] * product;
    }
  }
#pragma unroll
  for (int u = 0; u < kCinTile; ++u)
    if (first + u < s.units) y[(r * s.units + first + u) * s.dim + d] = cuda::narrow<T>(sums[u]);
}

// dx_i = sum over u, j of dy_u W[u, i, j] x0_j; and likewise to x0 where kSecond.
template <bool kAdd, bool kSecond, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    cin_gradient_kernel(Shape s, const float* weight, const T* dy, const T* other, T* to) {
  const int64_t own = kSecond ? s.m : s.n, others = kSecond ? s.n : s.m;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= s.rows * own * s.dim) return;
  const int64_t d = t % s.dim, e = t / s.dim % own, r = t / s.dim / own;
  float sum = 0.0f;
  for (int64_t u = 0; u < s.units; ++u) {
    const float slope = cuda::widen(dy[(r * s.units + u) * s.dim + d]);
    float of_unit = 0.0f;
    for (int64_t o = 0; o < others; ++o)
      of_unit += weight[u * s.n * s.m + (kSecond ? o * s.m + e : e * s.m + o)] *
                 cuda::widen(other[(r * others + o) * s.dim + d]);
    sum += slope * of_unit;
  }
  cuda::put<kAdd>(to[t], sum);
}

template <class T>
struct CinWeightGradient {
  Shape s;
  const T *x, *x0, *dy;
  __device__ void operator()(int64_t r, int64_t index, float (&sums)[1]) const {
    const int64_t j = index % s.m, i = index / s.m % s.n, u = index / s.m / s.n;
    const T *a = x + (r * s.n + i) * s.dim, *b = x0 + (r * s.m + j) * s.dim,
            *c = dy + (r * s.units + u) * s.dim;
    sums[0] = 0.0f;
    for (int64_t d = 0; d < s.dim; ++d)
      sums[0] += cuda::widen(a[d]) * cuda::widen(b[d]) * cuda::widen(c[d]);
  }
};

template <class T>
struct CinBiasGradient {
  Shape s;
  const T* dy;
  __device__ void operator()(int64_t r, int64_t u, float (&sums)[1]) const {
    sums[0] = 0.0f;
    for (int64_t d = 0; d < s.dim; ++d) sums[0] += cuda::widen(dy[(r * s.units + u) * s.dim + d]);
  }
};

Shape shape_of(int64_t rows, int64_t n, int64_t m, int64_t units, int64_t dim) {
  return {rows, static_cast<int>(n), static_cast<int>(m), static_cast<int>(units),
          static_cast<int>(dim)};
}

template <class T>
const T* narrow_weights(const OpContext& pass, int64_t begin) {
  return static_cast<const T*>(pass.narrow_parameters) + begin;
}

unsigned cin_blocks(int64_t threads) { return cuda::blocks_of(threads, cuda::kThreads); }

}  // namespace

void CinLayer::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const Shape shape = shape_of(pass.rows, n_, m_, units_, dim_);
  const float* bias = pass.parameters + bias_;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *x0 = in(1).value<T>();
    T* y = out().value<T>();
    if constexpr (!std::is_same_v<T, float>) {
      if (cuda::fits_cin_tensor_cores<T>(shape))
        return cuda::cin_forward(pass.context, shape, narrow_weights<T>(pass, weight_), bias, x, x0,
                                 pass.workspace, y);
    }
    cin_kernel<<<cin_blocks(pass.rows * ((units_ + kCinTile - 1) / kCinTile) * dim_),
                 cuda::kThreads, 0, pass.context.stream>>>(shape, pass.parameters + weight_, bias,
                                                           x, x0, y);
    cuda::check_launch("launching a CIN layer");
  });
}

void CinLayer::backward_cuda(const OpContext& pass) {
  const Shape shape = shape_of(pass.rows, n_, m_, units_, dim_);
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *x0 = in(1).value<T>(), *dy = out().gradient<T>();
    cuda::column_sums<1>(pass.context, pass.rows, units_, CinBiasGradient<T>{shape, dy},
                         pass.workspace, {{pass.gradients + bias_}});
    if constexpr (!std::is_same_v<T, float>) {
      if (cuda::fits_cin_tensor_cores<T>(shape)) {
        cuda::cin_weight_gradient(pass.context, shape, x, x0, dy, pass.workspace,
                                  pass.gradients + weight_);
        if (pass.rows > 0)
          cuda::cin_input_gradients(pass.context, shape, narrow_weights<T>(pass, weight_), x, x0,
                                    dy, pass.workspace, {write(0), in(0).gradient<T>()},
                                    {write(1), in(1).gradient<T>()});
        return;
      }
    }
    cuda::column_sums<1>(pass.context, pass.rows, units_ * n_ * m_,
                         CinWeightGradient<T>{shape, x, x0, dy}, pass.workspace,
                         {{pass.gradients + weight_}});
    if (pass.rows == 0) return;
    const float* weight = pass.parameters + weight_;
    with_write(write(0), [&](auto add) {
      cin_gradient_kernel<decltype(add)::value, false>
          <<<cin_blocks(pass.rows * n_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
              shape, weight, dy, x0, in(0).gradient<T>());
    });
    with_write(write(1), [&](auto add) {
      cin_gradient_kernel<decltype(add)::value, true>
          <<<cin_blocks(pass.rows * m_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
              shape, weight, dy, x, in(1).gradient<T>());
    });
    cuda::check_launch("launching the gradients of a CIN layer");
  });
}

}  // namespace emblem
