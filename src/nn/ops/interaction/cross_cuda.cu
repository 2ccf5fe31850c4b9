#include "nn/ops/interaction/cross.h"
#include "nn/ops/vectors/packed_sums.cuh"

namespace emblem {
namespace {

// Rows are taken kSize elements at a time. If they are padded with zeros, so are weight and
// bias.
template <int kSize>
__device__ void load_floats(const float* from, float (&to)[kSize]) {
#pragma unroll
  for (int k = 0; k < kSize; ++k) to[k] = __ldg(from + k);
}

// A warp for each row.
template <int kSize, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    cross_forward_kernel(int64_t rows, int64_t cols, const T* x0, const T* x, const float* weight,
                         const float* bias, T* y, float* products) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  x0 += r * cols, x += r * cols, y += r * cols;
  float product = 0.0f, parameters[kSize];
  for (int64_t j = threadIdx.x * kSize; j < cols; j += cuda::kWarp * kSize) {
    const auto values = cuda::load_elements<kSize>(x + j);
    load_floats(weight + j, parameters);
#pragma unroll
    for (int k = 0; k < kSize; ++k) product += cuda::widen(values.at[k]) * parameters[k];
  }
  product = cuda::warp_sum(product);
  if (threadIdx.x == 0) products[r] = product;
  for (int64_t j = threadIdx.x * kSize; j < cols; j += cuda::kWarp * kSize) {
    auto values = cuda::load_elements<kSize>(x + j);
    const auto first = cuda::load_elements<kSize>(x0 + j);
    load_floats(bias + j, parameters);
#pragma unroll
    for (int k = 0; k < kSize; ++k)
      values.at[k] = cuda::narrow<T>(cuda::widen(first.at[k]) * product + parameters[k] +
                                     cuda::widen(values.at[k]));
    cuda::store_packet(y + j, values);
  }
}

template <class T>
struct CrossBackward {
  int64_t rows, cols;
  const T *x0, *dy;
  const float *weight, *products;
  float* product_gradients;
  T *dx0, *dx;  // the same for the first layer: dx0 is written first
  Write write0, write1;
};

template <int kSize, class T>
__global__ void __launch_bounds__(cuda::kThreads) cross_backward_kernel(CrossBackward<T> b) {
  const int64_t r = cuda::row_of_warp();
  if (r >= b.rows) return;
  const T *dy = b.dy + r * b.cols, *x0 = b.x0 + r * b.cols;
  float gradient = 0.0f;
  for (int64_t j = threadIdx.x * kSize; j < b.cols; j += cuda::kWarp * kSize) {
    const auto d = cuda::load_elements<kSize>(dy + j), first = cuda::load_elements<kSize>(x0 + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) gradient += cuda::widen(d.at[k]) * cuda::widen(first.at[k]);
  }
  gradient = cuda::warp_sum(gradient);
  if (threadIdx.x == 0) b.product_gradients[r] = gradient;
  const float product = b.products[r];
  for (int64_t j = threadIdx.x * kSize; j < b.cols; j += cuda::kWarp * kSize) {
    const auto d = cuda::load_elements<kSize>(dy + j);
    float weights[kSize];
    load_floats(b.weight + j, weights);
    cuda::put_elements<kSize>(b.write0, b.dx0 + r * b.cols + j,
                              [&](int k) { return cuda::widen(d.at[k]) * product; });
    cuda::put_elements<kSize>(b.write1, b.dx + r * b.cols + j,
                              [&](int k) { return cuda::widen(d.at[k]) + gradient * weights[k]; });
  }
}

// What elements add to the gradients of weight and bias.
template <int kSize, class T>
struct CrossParameters {
  struct Loaded {
    cuda::Elements<T, kSize> x, d;
    float gradient;
  };
  const T *x, *dy;
  const float* product_gradients;
  int64_t cols;

  __device__ Loaded load(int64_t r, int64_t j) const {
    return {cuda::load_elements<kSize>(x + r * cols + j),
            cuda::load_elements<kSize>(dy + r * cols + j), product_gradients[r]};
  }
  __device__ void add(int64_t, int64_t, const Loaded& loaded, float (&sums)[2][kSize]) const {
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      sums[0][k] += loaded.gradient * cuda::widen(loaded.x.at[k]);
      sums[1][k] += cuda::widen(loaded.d.at[k]);
    }
  }
};

struct Combine {
  __device__ float operator()(int64_t, float x0, float z, float x) const { return x0 * z + x; }
};

// Inputs may share a gradient: what is written to one before is read again.
template <class T>
struct CombineBackward {
  const T *x0, *z, *dy;
  T* gradients[3];  // gradients of x0, z and x
  Write writes[3];

  template <int kSize>
  __device__ void run(int64_t begin) const {
    using cuda::widen;
    const auto d = cuda::load_elements<kSize>(dy + begin),
               first = cuda::load_elements<kSize>(x0 + begin),
               factor = cuda::load_elements<kSize>(z + begin);
    cuda::put_elements<kSize>(writes[0], gradients[0] + begin,
                              [&](int k) { return widen(d.at[k]) * widen(factor.at[k]); });
    cuda::put_elements<kSize>(writes[1], gradients[1] + begin,
                              [&](int k) { return widen(d.at[k]) * widen(first.at[k]); });
    cuda::put_elements<kSize>(writes[2], gradients[2] + begin,
                              [&](int k) { return widen(d.at[k]); });
  }
};

}  // namespace

void CrossLayer::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const int64_t cols = out().stride;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::with_size<T>(cols, [&](auto size) {
      cross_forward_kernel<decltype(size)::value, T>
          <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
              pass.rows, cols, in(0).value<T>(), in(1).value<T>(), pass.parameters + weight_,
              pass.parameters + bias_, out().value<T>(), products_.data());
    });
    cuda::check_launch("launching a cross layer");
  });
}

void CrossLayer::backward_cuda(const OpContext& pass) {
  const int64_t cols = out().stride;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::with_size<T>(cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      if (pass.rows > 0) {
        const CrossBackward<T> b{.rows = pass.rows,
                                 .cols = cols,
                                 .x0 = in(0).value<T>(),
                                 .dy = out().gradient<T>(),
                                 .weight = pass.parameters + weight_,
                                 .products = products_.data(),
                                 .product_gradients = product_gradients_.data(),
                                 .dx0 = in(0).gradient<T>(),
                                 .dx = in(1).gradient<T>(),
                                 .write0 = write(0),
                                 .write1 = write(1)};
        cross_backward_kernel<kSize, T>
            <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(b);
        cuda::check_launch("launching the gradient of a cross layer");
      }
      const CrossParameters<kSize, T> parameters{in(1).value<T>(), out().gradient<T>(),
                                                 product_gradients_.data(), cols};
      cuda::packed_column_sums<2, kSize>(
          pass, pass.rows, cols, parameters,
          {{{pass.gradients + weight_, cols_}, {pass.gradients + bias_, cols_}}});
    });
  });
}

void CrossCombine::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().stride, Combine{},
              out().value<T>(), in(0).value<T>(), in(1).value<T>(), in(2).value<T>());
  });
}

void CrossCombine::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const CombineBackward<T> b{
        .x0 = in(0).value<T>(),
        .z = in(1).value<T>(),
        .dy = out().gradient<T>(),
        .gradients = {in(0).gradient<T>(), in(1).gradient<T>(), in(2).gradient<T>()},
        .writes = {write(0), write(1), write(2)}};
    cuda::for_each_packet<T>(pass.context, pass.rows * out().stride, b);
  });
}

}  // namespace emblem
