#include "nn/ops/attention/capsules.h"
#include "nn/ops/lanes.cuh"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace {

// A block for each row.
struct RoutedRow {
  int64_t first;  // element
  int32_t length, count;
  int there, dim;

  __device__ RoutedRow(const CapsuleOptions& options, int dim, const int32_t* offsets)
      : first(offsets[blockIdx.x]),
        length(offsets[blockIdx.x + 1] - offsets[blockIdx.x]),
        count(options.elements_read(length)),
        there(options.capsules_of(length)),
        dim(dim) {}
};

__device__ int thread_of_block() {
  return static_cast<int>(threadIdx.y) * cuda::kWarp + static_cast<int>(threadIdx.x);
}

// A thread for each element: shares = softmax(scale * shares); 0 for capsules that are missing.
__device__ void divide_elements(const RoutedRow& row, const CapsuleOptions& options,
                                float* shares) {
  for (int32_t t = thread_of_block(); t < row.count; t += cuda::kThreads) {
    float *of = shares + t * options.capsules, most = of[0], sum = 0.0f;
    for (int k = 1; k < row.there; ++k) most = fmaxf(most, of[k]);
    for (int k = 0; k < row.there; ++k) sum += of[k] = expf(options.scale * (of[k] - most));
    for (int k = 0; k < row.there; ++k) of[k] /= sum;
    for (int k = row.there; k < options.capsules; ++k) of[k] = 0.0f;
  }
}

// A thread for each column of each capsule.
template <class T>
__device__ void sum_elements(const RoutedRow& row, int capsules, const T* x, const float* shares,
                             float* sums) {
  for (int i = thread_of_block(); i < capsules * row.dim; i += cuda::kThreads) {
    const int k = i / row.dim, j = i % row.dim;
    float sum = 0.0f;
    for (int32_t t = 0; k < row.there && t < row.count; ++t)
      sum += shares[t * capsules + k] * cuda::widen(x[static_cast<int64_t>(t) * row.dim + j]);
    sums[i] = sum;
  }
}

// The sum over a warp of a[j] b[j].
template <class A, class B>
__device__ float warp_dot(int dim, const A* a, const B* b) {
  float sum = 0.0f;
  for (int j = threadIdx.x; j < dim; j += cuda::kWarp) sum += cuda::widen(a[j]) * cuda::widen(b[j]);
  return cuda::warp_sum(sum);
}

// A warp for each element.
template <class T>
__device__ void add_agreement(const RoutedRow& row, int capsules, const T* x, const float* sums,
                              float* shares) {
  for (int32_t t = threadIdx.y; t < row.count; t += cuda::kWarps) {
    const T* of = x + static_cast<int64_t>(t) * row.dim;
    const float share = 1.0f / fmaxf(sqrtf(warp_dot(row.dim, of, of)), 1e-12f);
    for (int k = 0; k < row.there; ++k) {
      const float product = warp_dot(row.dim, sums + k * row.dim, of);
      if (threadIdx.x == 0) shares[t * capsules + k] += share * product;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    capsules_kernel(CapsuleOptions options, int dim, const int32_t* offsets, const T* x,
                    float* shares, float* sums, T* y) {
  const RoutedRow row(options, dim, offsets);
  const int capsules = options.capsules;
  x += row.first * dim;
  shares += row.first * capsules;
  sums += static_cast<int64_t>(blockIdx.x) * capsules * dim;
  y += static_cast<int64_t>(blockIdx.x) * capsules * dim;
  for (int i = thread_of_block(); i < row.count * capsules; i += cuda::kThreads)
    shares[i] = options.first_logit(i / capsules, i % capsules);
  for (int iteration = 1;; ++iteration) {
    __syncthreads();
    divide_elements(row, options, shares);
    __syncthreads();
    sum_elements(row, capsules, x, shares, sums);
    __syncthreads();
    if (iteration == options.iterations) break;
    add_agreement(row, capsules, x, sums, shares);
  }
  const Squash squash{options.squash_power};
  for (int k = threadIdx.y; k < capsules; k += cuda::kWarps) {
    const float* v = sums + k * dim;
    const float factor = squash.factor(warp_dot(dim, v, v));
    for (int j = threadIdx.x; j < dim; j += cuda::kWarp)
      y[k * dim + j] = cuda::narrow<T>(factor * v[j]);
  }
}

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    capsule_gradients_kernel(CapsuleOptions options, int dim, const int32_t* offsets,
                             const float* shares, float* sums, const T* dy, T* dx) {
  const RoutedRow row(options, dim, offsets);
  const int capsules = options.capsules;
  shares += row.first * capsules;
  sums += static_cast<int64_t>(blockIdx.x) * capsules * dim;
  dy += static_cast<int64_t>(blockIdx.x) * capsules * dim;
  dx += row.first * dim;
  const Squash squash{options.squash_power};
  for (int k = threadIdx.y; k < row.there; k += cuda::kWarps) {
    float* v = sums + k * dim;
    const T* d = dy + k * dim;
    const float square = warp_dot(dim, v, v), factor = squash.factor(square);
    const float along = squash.along(square) * warp_dot(dim, v, d);
    for (int j = threadIdx.x; j < dim; j += cuda::kWarp)
      v[j] = factor * cuda::widen(d[j]) + along * v[j];
  }
  __syncthreads();
  const int64_t size = static_cast<int64_t>(row.length) * dim;
  for (int64_t i = thread_of_block(); i < size; i += cuda::kThreads) {
    const int64_t t = i / dim, j = i % dim;
    if (kAdd && t >= row.count) return;
    float sum = 0.0f;
    for (int k = 0; t < row.count && k < row.there; ++k)
      sum += shares[t * capsules + k] * sums[k * dim + j];
    cuda::put<kAdd>(dx[i], sum);
  }
}

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    capsule_mask_kernel(CapsuleOptions options, int64_t rows, float there, float missing,
                        const int32_t* offsets, T* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= rows * options.capsules) return;
  const int64_t r = i / options.capsules;
  const int k = static_cast<int>(i % options.capsules);
  y[i] = cuda::narrow<T>(k < options.capsules_of(offsets[r + 1] - offsets[r]) ? there : missing);
}

}  // namespace

void Capsules::forward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    capsules_kernel<T>
        <<<static_cast<unsigned>(pass.batch_rows), cuda::row_threads(), 0, pass.context.stream>>>(
            options_, static_cast<int>(in(0).cols), pass.offsets, in(0).value<T>(), shares_.data(),
            sums_.data(), out().value<T>());
    cuda::check_launch("launching the routing to capsules");
  });
}

void Capsules::backward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      capsule_gradients_kernel<decltype(add)::value, T>
          <<<static_cast<unsigned>(pass.batch_rows), cuda::row_threads(), 0, pass.context.stream>>>(
              options_, static_cast<int>(in(0).cols), pass.offsets, shares_.data(), sums_.data(),
              out().gradient<T>(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of the routing to capsules");
    });
  });
  if (write(0) == Write::kOverwrite)
    cuda::clear_padding(pass, in(0).dtype, in(0).cols, in(0).gradient_data);
}

void CapsuleMask::forward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    capsule_mask_kernel<T><<<cuda::blocks_of(pass.batch_rows * out().cols, cuda::kThreads),
                             cuda::kThreads, 0, pass.context.stream>>>(
        options_, pass.batch_rows, there_, missing_, pass.offsets, out().value<T>());
    cuda::check_launch("launching a mask of capsules");
  });
}

}  // namespace emblem
