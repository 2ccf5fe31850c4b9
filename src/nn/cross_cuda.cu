#include "nn/cross.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

__global__ void __launch_bounds__(cuda::kThreads)
    cross_forward_kernel(int64_t rows, int64_t cols, const float* x0, const float* x,
                         const float* weight, const float* bias, float* y, float* products) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  x0 += r * cols, x += r * cols, y += r * cols;
  float product = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) product += x[j] * weight[j];
  product = cuda::warp_sum(product);
  if (threadIdx.x == 0) products[r] = product;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) y[j] = x0[j] * product + bias[j] + x[j];
}

__device__ void put(Write write, float* to, float value) {
  if (write == Write::kOverwrite) *to = value;
  if (write == Write::kAdd) *to += value;
}

struct CrossBackward {
  int64_t rows, cols;
  const float *x0, *dy, *weight, *products;
  float* product_gradients;
  float *dx0, *dx;  // the same for the first layer: dx0 is written first
  Write write0, write1;
};

__global__ void __launch_bounds__(cuda::kThreads) cross_backward_kernel(CrossBackward b) {
  const int64_t r = cuda::row_of_warp();
  if (r >= b.rows) return;
  const float *dy = b.dy + r * b.cols, *x0 = b.x0 + r * b.cols;
  float gradient = 0.0f;
  for (int64_t j = threadIdx.x; j < b.cols; j += cuda::kWarp) gradient += dy[j] * x0[j];
  gradient = cuda::warp_sum(gradient);
  if (threadIdx.x == 0) b.product_gradients[r] = gradient;
  const float product = b.products[r];
  for (int64_t j = threadIdx.x; j < b.cols; j += cuda::kWarp) {
    put(b.write0, b.dx0 + r * b.cols + j, dy[j] * product);
    put(b.write1, b.dx + r * b.cols + j, dy[j] + gradient * b.weight[j]);
  }
}

// What an element adds to the gradients of weight and bias.
struct CrossParameters {
  const float *x, *dy, *product_gradients;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sums)[2]) const {
    sums[0] = product_gradients[r] * x[r * cols + j];
    sums[1] = dy[r * cols + j];
  }
};

struct Combine {
  __device__ float operator()(int64_t, float x0, float z, float x) const { return x0 * z + x; }
};
struct Product {
  __device__ float operator()(int64_t, float a, float b) const { return a * b; }
};
struct Copy {
  __device__ float operator()(int64_t, float x) const { return x; }
};

}  // namespace

void CrossLayer::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  cross_forward_kernel<<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0,
                         pass.context.stream>>>(pass.rows, cols_, in(0).value, in(1).value,
                                                pass.parameters + weight_, pass.parameters + bias_,
                                                out().value, products_.data());
  cuda::check_launch("launching a cross layer");
}

void CrossLayer::backward_cuda(const Pass& pass) {
  if (pass.rows > 0) {
    const CrossBackward b{pass.rows,
                          cols_,
                          in(0).value,
                          out().gradient,
                          pass.parameters + weight_,
                          products_.data(),
                          product_gradients_.data(),
                          in(0).gradient,
                          in(1).gradient,
                          write(0),
                          write(1)};
    cross_backward_kernel<<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0,
                            pass.context.stream>>>(b);
    cuda::check_launch("launching the gradient of a cross layer");
  }
  cuda::column_sums<2>(
      pass.context, pass.rows, cols_,
      CrossParameters{in(1).value, out().gradient, product_gradients_.data(), cols_},
      pass.workspace, {{pass.gradients + weight_, pass.gradients + bias_}});
}

void CrossCombine::forward_cuda(const Pass& pass) {
  cuda::map(pass.context, Write::kOverwrite, pass.rows * out().cols, Combine{}, out().value,
            in(0).value, in(1).value, in(2).value);
}

void CrossCombine::backward_cuda(const Pass& pass) {
  const int64_t count = pass.rows * out().cols;
  const float* dy = out().gradient;
  cuda::map(pass.context, write(0), count, Product{}, in(0).gradient, dy, in(1).value);
  cuda::map(pass.context, write(1), count, Product{}, in(1).gradient, dy, in(0).value);
  cuda::map(pass.context, write(2), count, Copy{}, in(2).gradient, dy);
}

}  // namespace emblem
