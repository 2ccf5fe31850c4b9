// Each thread computes elements of one row's output; the lists are short, and what threads share
// is in the cache.
#include "nn/ops/launch.cuh"
#include "nn/ops/vectors.h"

namespace emblem {
namespace {

constexpr int kTile = 4;  // outputs of a thread

// A trained matrix, or its transpose: at(k, i).
struct Weights {
  const float* data;
  int64_t row_stride, col_stride;
  __device__ float at(int64_t k, int64_t i) const { return data[k * row_stride + i * col_stride]; }
};

// y[r, i, d] = (or +=) sum over k of weights(k, i) x[r, k, d]; kTile of i a thread.
template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    mix_vectors_kernel(int64_t rows, int64_t n, int64_t m, int64_t dim, Weights weights, const T* x,
                       T* y) {
  const int64_t tiles = (m + kTile - 1) / kTile;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= rows * tiles * dim) return;
  const int64_t d = t % dim, first = t / dim % tiles * kTile, r = t / dim / tiles;
  float sums[kTile] = {};
  for (int64_t k = 0; k < n; ++k) {
    const float value = cuda::widen(x[(r * n + k) * dim + d]);
#pragma unroll
    for (int i = 0; i < kTile; ++i)
      if (first + i < m) sums[i] += weights.at(k, first + i) * value;
  }
#pragma unroll
  for (int i = 0; i < kTile; ++i)
    if (first + i < m) cuda::put<kAdd>(y[(r * m + first + i) * dim + d], sums[i]);
}

// The gradient of a weight from a row: x_k . dy_i
template <class T>
struct WeightGradient {
  const T *x, *dy;
  int64_t n, m, dim;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[1]) const {
    const T *a = x + (r * n + j / m) * dim, *b = dy + (r * m + j % m) * dim;
    sums[0] = 0.0f;
    for (int64_t d = 0; d < dim; ++d) sums[0] += cuda::widen(a[d]) * cuda::widen(b[d]);
  }
};

// out[r, i, k] = x[r, i] . y[r, k]
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    vector_products_kernel(int64_t rows, int64_t n, int64_t k, int64_t dim, const T* x, const T* y,
                           T* out) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= rows * n * k) return;
  const T *a = x + t / k * dim, *b = y + (t / (n * k) * k + t % k) * dim;
  float sum = 0.0f;
  for (int64_t d = 0; d < dim; ++d) sum += cuda::widen(a[d]) * cuda::widen(b[d]);
  out[t] = cuda::narrow<T>(sum);
}

// to[r, i, d] = (or +=) sum over k of g(r, i, k) of[r, k, d], where g is [i, k] of dy, or [k, i]
// where transposed.
template <bool kAdd, bool kTransposed, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    products_gradient_kernel(int64_t rows, int64_t own, int64_t others, int64_t dim, const T* dy,
                             const T* of, T* to) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= rows * own * dim) return;
  const int64_t d = t % dim, i = t / dim % own, r = t / dim / own;
  const T* g = dy + r * own * others;
  float sum = 0.0f;
  for (int64_t k = 0; k < others; ++k)
    sum += cuda::widen(g[kTransposed ? k * own + i : i * others + k]) *
           cuda::widen(of[(r * others + k) * dim + d]);
  cuda::put<kAdd>(to[t], sum);
}

struct CinShape {
  int64_t rows, n, m, units, dim;
};

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    cin_kernel(CinShape s, const float* weight, const float* bias, const T* x, const T* x0, T* y) {
  const int64_t tiles = (s.units + kTile - 1) / kTile;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= s.rows * tiles * s.dim) return;
  const int64_t d = t % s.dim, first = t / s.dim % tiles * kTile, r = t / s.dim / tiles;
  float sums[kTile];
#pragma unroll
  for (int u = 0; u < kTile; ++u) sums[u] = first + u < s.units ? bias[first + u] : 0.0f;
  for (int64_t i = 0; i < s.n; ++i) {
    const float left = cuda::widen(x[(r * s.n + i) * s.dim + d]);
    for (int64_t j = 0; j < s.m; ++j) {
      const float product = left * cuda::widen(x0[(r * s.m + j) * s.dim + d]);
#pragma unroll
      for (int u = 0; u < kTile; ++u)
        if (first + u < s.units) sums[u] += weight[((first + u) * s.n + i) * s.m + j] * product;
    }
  }
#pragma unroll
  for (int u = 0; u < kTile; ++u)
    if (first + u < s.units) y[(r * s.units + first + u) * s.dim + d] = cuda::narrow<T>(sums[u]);
}

// dx_i = sum over u, j of dy_u W[u, i, j] x0_j; and likewise to x0 where kSecond.
template <bool kAdd, bool kSecond, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    cin_gradient_kernel(CinShape s, const float* weight, const T* dy, const T* other, T* to) {
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
  CinShape s;
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
  CinShape s;
  const T* dy;
  __device__ void operator()(int64_t r, int64_t u, float (&sums)[1]) const {
    sums[0] = 0.0f;
    for (int64_t d = 0; d < s.dim; ++d) sums[0] += cuda::widen(dy[(r * s.units + u) * s.dim + d]);
  }
};

unsigned blocks(int64_t threads) { return cuda::blocks_of(threads, cuda::kThreads); }

}  // namespace

void MixVectors::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    mix_vectors_kernel<false>
        <<<blocks(pass.rows * ((m_ + kTile - 1) / kTile) * dim_), cuda::kThreads, 0,
           pass.context.stream>>>(pass.rows, n_, m_, dim_, {pass.parameters + weight_, m_, 1},
                                  in(0).value<const T>(), out().value<T>());
    cuda::check_launch("launching a product over vectors");
  });
}

void MixVectors::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *dy = out().gradient<T>();
    cuda::column_sums<1>(pass.context, pass.rows, n_ * m_, WeightGradient<T>{x, dy, n_, m_, dim_},
                         pass.workspace, {{pass.gradients + weight_}});
    if (pass.rows == 0) return;
    with_write(write(0), [&](auto add) {
      mix_vectors_kernel<decltype(add)::value>
          <<<blocks(pass.rows * ((n_ + kTile - 1) / kTile) * dim_), cuda::kThreads, 0,
             pass.context.stream>>>(pass.rows, m_, n_, dim_, {pass.parameters + weight_, 1, m_}, dy,
                                    in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a product over vectors");
    });
  });
}

void VectorProducts::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    vector_products_kernel<<<blocks(pass.rows * n_ * k_), cuda::kThreads, 0, pass.context.stream>>>(
        pass.rows, n_, k_, dim_, in(0).value<const T>(), in(1).value<const T>(), out().value<T>());
    cuda::check_launch("launching products of vectors");
  });
}

void VectorProducts::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T* dy = out().gradient<T>();
    with_write(write(0), [&](auto add) {
      products_gradient_kernel<decltype(add)::value, false>
          <<<blocks(pass.rows * n_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
              pass.rows, n_, k_, dim_, dy, in(1).value<const T>(), in(0).gradient<T>());
    });
    with_write(write(1), [&](auto add) {
      products_gradient_kernel<decltype(add)::value, true>
          <<<blocks(pass.rows * k_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
              pass.rows, k_, n_, dim_, dy, in(0).value<const T>(), in(1).gradient<T>());
    });
    cuda::check_launch("launching the gradients of products of vectors");
  });
}

void CinLayer::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const CinShape shape{pass.rows, n_, m_, units_, dim_};
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cin_kernel<<<blocks(pass.rows * ((units_ + kTile - 1) / kTile) * dim_), cuda::kThreads, 0,
                 pass.context.stream>>>(shape, pass.parameters + weight_, pass.parameters + bias_,
                                        in(0).value<const T>(), in(1).value<const T>(),
                                        out().value<T>());
    cuda::check_launch("launching a CIN layer");
  });
}

void CinLayer::backward_cuda(const OpContext& pass) {
  const CinShape shape{pass.rows, n_, m_, units_, dim_};
  const float* weight = pass.parameters + weight_;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *x0 = in(1).value<T>(), *dy = out().gradient<T>();
    cuda::column_sums<1>(pass.context, pass.rows, units_ * n_ * m_,
                         CinWeightGradient<T>{shape, x, x0, dy}, pass.workspace,
                         {{pass.gradients + weight_}});
    cuda::column_sums<1>(pass.context, pass.rows, units_, CinBiasGradient<T>{shape, dy},
                         pass.workspace, {{pass.gradients + bias_}});
    if (pass.rows == 0) return;
    with_write(write(0), [&](auto add) {
      cin_gradient_kernel<decltype(add)::value, false>
          <<<blocks(pass.rows * n_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
              shape, weight, dy, x0, in(0).gradient<T>());
    });
    with_write(write(1), [&](auto add) {
      cin_gradient_kernel<decltype(add)::value, true>
          <<<blocks(pass.rows * m_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
              shape, weight, dy, x, in(1).gradient<T>());
    });
    cuda::check_launch("launching the gradients of a CIN layer");
  });
}

}  // namespace emblem
