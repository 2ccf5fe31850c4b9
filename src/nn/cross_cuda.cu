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
struct Product {
  __device__ float operator()(int64_t, float a, float b) const { return a * b; }
};

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
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T* dy = out().gradient<T>();
    cuda::map(pass.context, write(0), count, Product{}, in(0).gradient<T>(), dy, in(1).value<T>());
    cuda::map(pass.context, write(1), count, Product{}, in(1).gradient<T>(), dy, in(0).value<T>());
    cuda::map(pass.context, write(2), count, cuda::Copy{}, in(2).gradient<T>(), dy);
  });
}

}  // namespace emblem
