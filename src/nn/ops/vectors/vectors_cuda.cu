// In fp32 each thread computes elements of one row's output; the lists are short, and what threads
// share is in the cache.
#include "nn/ops/vectors/vectors.h"
#include "nn/ops/vectors/vectors_tensor.cuh"

namespace emblem {
namespace {

constexpr int kVectorTile = 4;  // outputs of a thread

// A trained matrix, or its transpose: at(k, i).
struct Weights {
  const float* data;
  int64_t row_stride, col_stride;
  __device__ float at(int64_t k, int64_t i) const { return data[k * row_stride + i * col_stride]; }
};

// y[r, i, d] = (or +=) sum over k of weights(k, i) x[r, k, d]; kVectorTile of i a thread.
template <bool kAdd>
__global__ void __launch_bounds__(cuda::kThreads)
    mix_vectors_kernel(int64_t rows, int64_t n, int64_t m, int64_t dim, Weights weights,
                       const float* x, float* y) {
  const int64_t tiles = (m + kVectorTile - 1) / kVectorTile;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= rows * tiles * dim) return;
  const int64_t d = t % dim, first = t / dim % tiles * kVectorTile, r = t / dim / tiles;
  float sums[kVectorTile] = {};
  for (int64_t k = 0; k < n; ++k) {
    const float value = x[(r * n + k) * dim + d];
#pragma unroll
    for (int i = 0; i < kVectorTile; ++i)
      if (first + i < m) sums[i] += weights.at(k, first + i) * value;
  }
#pragma unroll
  for (int i = 0; i < kVectorTile; ++i)
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
__global__ void __launch_bounds__(cuda::kThreads)
    vector_products_kernel(int64_t rows, int64_t n, int64_t k, int64_t dim, const float* x,
                           const float* y, float* out) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= rows * n * k) return;
  const float *a = x + t / k * dim, *b = y + (t / (n * k) * k + t % k) * dim;
  float sum = 0.0f;
  for (int64_t d = 0; d < dim; ++d) sum += a[d] * b[d];
  out[t] = sum;
}

// to[r, i, d] = (or +=) sum over k of g(r, i, k) of[r, k, d], where g is [i, k] of dy, or [k, i]
// where transposed.
template <bool kAdd, bool kTransposed>
__global__ void __launch_bounds__(cuda::kThreads)
    products_gradient_kernel(int64_t rows, int64_t own, int64_t others, int64_t dim,
                             const float* dy, const float* of, float* to) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (t >= rows * own * dim) return;
  const int64_t d = t % dim, i = t / dim % own, r = t / dim / own;
  const float* g = dy + r * own * others;
  float sum = 0.0f;
  for (int64_t k = 0; k < others; ++k)
    sum += g[kTransposed ? k * own + i : i * others + k] * of[(r * others + k) * dim + d];
  cuda::put<kAdd>(to[t], sum);
}

unsigned vector_blocks(int64_t threads) { return cuda::blocks_of(threads, cuda::kThreads); }

template <bool kAdd>
void mix_vectors(const OpContext& pass, int64_t n, int64_t m, int64_t dim, Weights weights,
                 const float* x, float* y) {
  mix_vectors_kernel<kAdd>
      <<<vector_blocks(pass.rows * ((m + kVectorTile - 1) / kVectorTile) * dim), cuda::kThreads, 0,
         pass.context.stream>>>(pass.rows, n, m, dim, weights, x, y);
  cuda::check_launch("launching a product over vectors");
}

template <class T>
void weight_gradient(const OpContext& pass, int64_t n, int64_t m, int64_t dim, const T* x,
                     const T* dy, float* to) {
  if constexpr (!std::is_same_v<T, float>) {
    if (cuda::fits_tensor_cores<T>(dim)) {
      const auto list = [&](const T* data, int64_t count) {
        return cuda::List<T>{data, static_cast<int>(count), static_cast<int>(dim)};
      };
      return cuda::outer_sums(pass.context, pass.rows, list(x, n),
                              cuda::VectorColumns<T>{list(dy, m)}, pass.workspace, to);
    }
  }
  cuda::column_sums<1>(pass.context, pass.rows, n * m, WeightGradient<T>{x, dy, n, m, dim},
                       pass.workspace, {{to}});
}

// In 16 bits products are made on tensor cores.
template <class T>
constexpr bool kNarrow = !std::is_same_v<T, float>;

// The vectors [count, dim] of each row as the rows of a matrix.
template <class T>
cuda::SmallMatrix<T> matrix_of(const T* vectors, int64_t count, int64_t dim) {
  return {vectors,    static_cast<int>(count), static_cast<int>(dim), static_cast<int>(dim), 1,
          count * dim};
}
template <class T>
cuda::SmallMatrix<T> transposed(const cuda::SmallMatrix<T>& m) {
  return {m.data, m.columns, m.rows, m.column_stride, m.row_stride, m.batch_stride};
}
// A trained one.
template <class T>
cuda::SmallMatrix<T> weights_of(const OpContext& pass, int64_t begin, int64_t rows, int64_t cols) {
  cuda::SmallMatrix<T> out =
      matrix_of(static_cast<const T*>(pass.narrow_parameters) + begin, rows, cols);
  out.batch_stride = 0;
  return out;
}

}  // namespace

void MixVectors::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T* x = in(0).value<T>();
    if constexpr (kNarrow<T>)
      return cuda::multiply_rows(pass.context, Write::kOverwrite, pass.rows,
                                 transposed(weights_of<T>(pass, weight_, n_, m_)),
                                 matrix_of(x, n_, dim_), out().value<T>());
    else
      mix_vectors<false>(pass, n_, m_, dim_, {pass.parameters + weight_, m_, 1}, x,
                         out().value<T>());
  });
}

void MixVectors::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *dy = out().gradient<T>();
    weight_gradient(pass, n_, m_, dim_, x, dy, pass.gradients + weight_);
    if (pass.rows == 0) return;
    T* dx = in(0).gradient<T>();
    if constexpr (kNarrow<T>)
      return cuda::multiply_rows(pass.context, write(0), pass.rows,
                                 weights_of<T>(pass, weight_, n_, m_), matrix_of(dy, m_, dim_), dx);
    else
      with_write(write(0), [&](auto add) {
        mix_vectors<decltype(add)::value>(pass, m_, n_, dim_, {pass.parameters + weight_, 1, m_},
                                          dy, dx);
      });
  });
}

void VectorProducts::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *y = in(1).value<T>();
    if constexpr (kNarrow<T>)
      return cuda::multiply_rows(pass.context, Write::kOverwrite, pass.rows, matrix_of(x, n_, dim_),
                                 transposed(matrix_of(y, k_, dim_)), out().value<T>());
    else
      vector_products_kernel<<<vector_blocks(pass.rows * n_ * k_), cuda::kThreads, 0,
                               pass.context.stream>>>(pass.rows, n_, k_, dim_, x, y,
                                                      out().value<T>());
    cuda::check_launch("launching products of vectors");
  });
}

void VectorProducts::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = in(0).value<T>(), *y = in(1).value<T>(), *dy = out().gradient<T>();
    if constexpr (kNarrow<T>) {
      const cuda::SmallMatrix<T> slopes = matrix_of(dy, n_, k_);
      cuda::multiply_rows(pass.context, write(0), pass.rows, slopes, matrix_of(y, k_, dim_),
                          in(0).gradient<T>());
      cuda::multiply_rows(pass.context, write(1), pass.rows, transposed(slopes),
                          matrix_of(x, n_, dim_), in(1).gradient<T>());
    } else {
      with_write(write(0), [&](auto add) {
        products_gradient_kernel<decltype(add)::value, false>
            <<<vector_blocks(pass.rows * n_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
                pass.rows, n_, k_, dim_, dy, y, in(0).gradient<T>());
      });
      with_write(write(1), [&](auto add) {
        products_gradient_kernel<decltype(add)::value, true>
            <<<vector_blocks(pass.rows * k_ * dim_), cuda::kThreads, 0, pass.context.stream>>>(
                pass.rows, k_, n_, dim_, dy, x, in(1).gradient<T>());
      });
      cuda::check_launch("launching the gradients of products of vectors");
    }
  });
}

}  // namespace emblem
