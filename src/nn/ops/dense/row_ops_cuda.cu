#include "nn/ops/dense/activation.h"
#include "nn/ops/dense/row_ops.h"
#include "nn/ops/launch.cuh"

namespace emblem {
namespace {

__device__ float lane_max(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

// Rows of `stride` elements, padded with zeros; some lanes of a warp for each.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    softmax_kernel(int64_t rows, int64_t cols, int64_t stride, int lanes, const T* x, T* y) {
  const int64_t r = cuda::row_of_lanes(lanes);
  if (r >= rows) return;
  const int lane = threadIdx.x % lanes;
  x += r * stride, y += r * stride;
  float most = -INFINITY, sum = 0.0f;
  for (int64_t j = lane; j < cols; j += lanes) most = fmaxf(most, cuda::widen(x[j]));
  most = lane_max(most, lanes);
  for (int64_t j = lane; j < cols; j += lanes) sum += exp_inline(cuda::widen(x[j]) - most);
  sum = cuda::lane_sum(sum, lanes);
  for (int64_t j = lane; j < cols; j += lanes)
    y[j] = cuda::narrow<T>(exp_inline(cuda::widen(x[j]) - most) / sum);
}

// dx = (or +=) y (dy - mean), where mean is the sum of y dy.
template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    softmax_gradient_kernel(int64_t rows, int64_t cols, int64_t stride, int lanes, const T* y,
                            const T* dy, T* dx) {
  const int64_t r = cuda::row_of_lanes(lanes);
  if (r >= rows) return;
  const int lane = threadIdx.x % lanes;
  y += r * stride, dy += r * stride, dx += r * stride;
  float mean = 0.0f;
  for (int64_t j = lane; j < cols; j += lanes) mean += cuda::widen(y[j]) * cuda::widen(dy[j]);
  mean = cuda::lane_sum(mean, lanes);
  for (int64_t j = lane; j < stride; j += lanes)
    cuda::put<kAdd>(dx[j], j < cols ? cuda::widen(y[j]) * (cuda::widen(dy[j]) - mean) : 0.0f);
}

template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    normalize_kernel(int64_t rows, int64_t cols, const T* x, T* y, float* factors) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float square = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    square += cuda::widen(x[r * cols + j]) * cuda::widen(x[r * cols + j]);
  const float factor = 1.0f / fmaxf(sqrtf(cuda::warp_sum(square)), Normalize::kLeast);
  if (threadIdx.x == 0) factors[r] = factor;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    y[r * cols + j] = cuda::narrow<T>(factor * cuda::widen(x[r * cols + j]));
}

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    normalize_gradient_kernel(int64_t rows, int64_t cols, const T* y, const T* dy,
                              const float* factors, T* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float along = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    along += cuda::widen(y[r * cols + j]) * cuda::widen(dy[r * cols + j]);
  along = cuda::warp_sum(along);
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) {
    const int64_t i = r * cols + j;
    cuda::put<kAdd>(dx[i], factors[r] * (cuda::widen(dy[i]) - along * cuda::widen(y[i])));
  }
}

// The column of labels that numbers the part of each row.
struct Choice {
  const float* labels;
  int64_t label_cols, column, cols;
  __device__ bool is(int64_t i, size_t part) const {
    return labels[i / cols * label_cols + column] == static_cast<float>(part);
  }
};
struct TakeFirst {
  Choice choice;
  __device__ float operator()(int64_t i, float x) const { return choice.is(i, 0) ? x : NAN; }
};
struct Take {
  Choice choice;
  size_t part;
  __device__ float operator()(int64_t i, float before, float x) const {
    return choice.is(i, part) ? x : before;
  }
};
struct Give {
  Choice choice;
  size_t part;
  __device__ float operator()(int64_t i, float dy) const { return choice.is(i, part) ? dy : 0.0f; }
};

}  // namespace

void Softmax::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const int lanes = cuda::lanes_for(out().cols);
    softmax_kernel<<<cuda::lane_blocks(pass.rows, lanes), cuda::kThreads, 0, pass.context.stream>>>(
        pass.rows, out().cols, out().stride, lanes, in(0).value<const T>(), out().value<T>());
    cuda::check_launch("launching a softmax");
  });
}

void Softmax::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const int lanes = cuda::lanes_for(out().cols);
    with_write(write(0), [&](auto add) {
      softmax_gradient_kernel<decltype(add)::value>
          <<<cuda::lane_blocks(pass.rows, lanes), cuda::kThreads, 0, pass.context.stream>>>(
              pass.rows, out().cols, out().stride, lanes, out().value<const T>(),
              out().gradient<const T>(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a softmax");
    });
  });
}

void Normalize::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    normalize_kernel<<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
        pass.rows, out().cols, in(0).value<const T>(), out().value<T>(), factors_.data());
    cuda::check_launch("launching a normalization of rows");
  });
}

void Normalize::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      normalize_gradient_kernel<decltype(add)::value>
          <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
              pass.rows, out().cols, out().value<const T>(), out().gradient<const T>(),
              factors_.data(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a normalization of rows");
    });
  });
}

void StopGradient::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().stride, cuda::Copy{},
              out().value<T>(), in(0).value<T>());
  });
}

void Select::forward_cuda(const OpContext& pass) {
  const Tensor& labels = in(parts());
  const Choice choice{labels.value(), labels.cols, column_, out().cols};
  const int64_t count = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    T* y = out().value<T>();
    cuda::map(pass.context, Write::kOverwrite, count, TakeFirst{choice}, y, in(0).value<T>());
    for (size_t part = 1; part < parts(); ++part)
      cuda::map(pass.context, Write::kOverwrite, count, Take{choice, part}, y, y,
                in(part).value<T>());
  });
}

void Select::backward_cuda(const OpContext& pass) {
  const Tensor& labels = in(parts());
  const Choice choice{labels.value(), labels.cols, column_, out().cols};
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t part = 0; part < parts(); ++part)
      cuda::map(pass.context, write(part), pass.rows * out().cols, Give{choice, part},
                in(part).gradient<T>(), out().gradient<T>());
  });
}

}  // namespace emblem
