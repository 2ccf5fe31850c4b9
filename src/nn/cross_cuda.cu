#include "nn/cross.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    cross_forward_kernel(int64_t rows, int64_t cols, const T* x0, const T* x, const float* weight,
                         const float* bias, T* y, float* products) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  x0 += r * cols, x += r * cols, y += r * cols;
  float product = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    product += cuda::widen(x[j]) * weight[j];
  product = cuda::warp_sum(product);
  if (threadIdx.x == 0) products[r] = product;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    y[j] = cuda::narrow<T>(cuda::widen(x0[j]) * product + bias[j] + cuda::widen(x[j]));
}

template <class T>
__device__ void put(Write write, T* to, float value) {
  if (write == Write::kOverwrite) cuda::put<false>(*to, value);
  if (write == Write::kAdd) cuda::put<true>(*to, value);
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

template <class T>
__global__ void __launch_bounds__(cuda::kThreads) cross_backward_kernel(CrossBackward<T> b) {
  const int64_t r = cuda::row_of_warp();
  if (r >= b.rows) return;
  const T *dy = b.dy + r * b.cols, *x0 = b.x0 + r * b.cols;
  float gradient = 0.0f;
  for (int64_t j = threadIdx.x; j < b.cols; j += cuda::kWarp)
    gradient += cuda::widen(dy[j]) * cuda::widen(x0[j]);
  gradient = cuda::warp_sum(gradient);
  if (threadIdx.x == 0) b.product_gradients[r] = gradient;
  const float product = b.products[r];
  for (int64_t j = threadIdx.x; j < b.cols; j += cuda::kWarp) {
    const float d = cuda::widen(dy[j]);
    put(b.write0, b.dx0 + r * b.cols + j, d * product);
    put(b.write1, b.dx + r * b.cols + j, d + gradient * b.weight[j]);
  }
}

// What an element adds to the gradients of weight and bias.
template <class T>
struct CrossParameters {
  const T *x, *dy;
  const float* product_gradients;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[2]) const {
    sums[0] = product_gradients[r] * cuda::widen(x[r * cols + j]);
    sums[1] = cuda::widen(dy[r * cols + j]);
  }
};

struct Combine {
  __device__ float operator()(int64_t, float x0, float z, float x) const { return x0 * z + x; }
};

// Inputs may share a gradient: what is written to one before is read again.
template <class T>
struct CombineBackward {
  int64_t count;
  const T *x0, *z, *dy;
  T* gradients[3];  // of x0, z and x
  Write writes[3];

  template <class F>
  __device__ void put_four(int input, int64_t begin, F&& f) const {
    if (writes[input] == Write::kNone) return;
    T* to = gradients[input] + begin;
    cuda::Four<T> out{};
    if (writes[input] == Write::kAdd) out = cuda::load_four(to);
#pragma unroll
    for (int k = 0; k < 4; ++k) put(writes[input], &out.at[k], f(k));
    cuda::store_four(to, out);
  }
};

// Four elements a thread.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads) combine_backward_kernel(CombineBackward<T> b) {
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x) * 4;
  using cuda::widen;
  if (begin + 4 <= b.count) {
    const auto dy = cuda::load_four(b.dy + begin), x0 = cuda::load_four(b.x0 + begin),
               z = cuda::load_four(b.z + begin);
    b.put_four(0, begin, [&](int k) { return widen(dy.at[k]) * widen(z.at[k]); });
    b.put_four(1, begin, [&](int k) { return widen(dy.at[k]) * widen(x0.at[k]); });
    b.put_four(2, begin, [&](int k) { return widen(dy.at[k]); });
  } else {
    for (int64_t i = begin; i < b.count; ++i) {
      const float dy = widen(b.dy[i]);
      put(b.writes[0], b.gradients[0] + i, dy * widen(b.z[i]));
      put(b.writes[1], b.gradients[1] + i, dy * widen(b.x0[i]));
      put(b.writes[2], b.gradients[2] + i, dy);
    }
  }
}

}  // namespace

void CrossLayer::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cross_forward_kernel<T>
        <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
            pass.rows, cols_, in(0).value<T>(), in(1).value<T>(), pass.parameters + weight_,
            pass.parameters + bias_, out().value<T>(), products_.data());
    cuda::check_launch("launching a cross layer");
  });
}

void CrossLayer::backward_cuda(const Pass& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    if (pass.rows > 0) {
      const CrossBackward<T> b{.rows = pass.rows,
                               .cols = cols_,
                               .x0 = in(0).value<T>(),
                               .dy = out().gradient<T>(),
                               .weight = pass.parameters + weight_,
                               .products = products_.data(),
                               .product_gradients = product_gradients_.data(),
                               .dx0 = in(0).gradient<T>(),
                               .dx = in(1).gradient<T>(),
                               .write0 = write(0),
                               .write1 = write(1)};
      cross_backward_kernel<T>
          <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(b);
      cuda::check_launch("launching the gradient of a cross layer");
    }
    cuda::column_sums<2>(
        pass.context, pass.rows, cols_,
        CrossParameters<T>{in(1).value<T>(), out().gradient<T>(), product_gradients_.data(), cols_},
        pass.workspace, {{pass.gradients + weight_, pass.gradients + bias_}});
  });
}

void CrossCombine::forward_cuda(const Pass& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().cols, Combine{}, out().value<T>(),
              in(0).value<T>(), in(1).value<T>(), in(2).value<T>());
  });
}

void CrossCombine::backward_cuda(const Pass& pass) {
  const int64_t count = pass.rows * out().cols;
  if (count == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const CombineBackward<T> b{
        .count = count,
        .x0 = in(0).value<T>(),
        .z = in(1).value<T>(),
        .dy = out().gradient<T>(),
        .gradients = {in(0).gradient<T>(), in(1).gradient<T>(), in(2).gradient<T>()},
        .writes = {write(0), write(1), write(2)}};
    combine_backward_kernel<T>
        <<<cuda::blocks_of(count, 4 * cuda::kThreads), cuda::kThreads, 0, pass.context.stream>>>(b);
    cuda::check_launch("launching the gradient of a cross layer");
  });
}

}  // namespace emblem
