// A linear layer of one unit: a vector in the place of the weight matrix, read in fp32. Where rows
// of the input are padded with zeros, so is the vector.
#include "nn/ops/activation.h"
#include "nn/ops/linear.h"
#include "nn/ops/packet.cuh"

namespace emblem {
namespace {

using namespace cuda;

// A warp for each row.
template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    one_unit_kernel(int64_t rows, int64_t cols, const T* x, const float* weight, const float* bias,
                    T* y) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += kWarp) sum += widen(x[r * cols + j]) * weight[j];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) y[r] = narrow<T>(F::value(bias == nullptr ? sum : sum + *bias));
}

// A warp for every kRowsEach rows, which are on their way at once.
constexpr int kRowsEach = 8;
template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    packed_one_unit_kernel(int64_t rows, int64_t cols, const T* x, const float* weight,
                           const float* bias, T* y) {
  constexpr int kSize = Packet<T>::kSize;
  const int64_t first = row_of_warp() * kRowsEach;
  float sums[kRowsEach] = {};
  for (int64_t j = threadIdx.x * kSize; j < cols; j += kWarp * kSize) {
    Packet<T> values[kRowsEach];
    float weights[kSize];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i)
      if (first + i < rows) values[i] = load_packet(x + (first + i) * cols + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) weights[k] = __ldg(weight + j + k);
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int k = 0; first + i < rows && k < kSize; ++k)
        sums[i] += widen(values[i].at[k]) * weights[k];
    }
  }
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const float sum = warp_sum(sums[i]);
    if (threadIdx.x == 0 && first + i < rows)
      y[first + i] = narrow<T>(F::value(bias == nullptr ? sum : sum + *bias));
  }
}

// What one pass over x gives: the gradients of x, and for each group of rows those of the weights
// (weight_parts) and of the bias (bias_parts).
template <class T>
struct OneUnitGradients {
  int64_t rows, cols, rows_each;
  const T *dy, *y, *x;
  const float* weight;
  T* dx;
  float *weight_parts, *bias_parts;

  template <class F>
  __device__ float slope(int64_t r) const {
    return widen(dy[r]) * F::slope(widen(y[r]));
  }
};

// kWrite: whether dx is written, kAdd: whether it is added to.
template <class F, bool kWrite, bool kAdd, int kSize, class T>
__global__ void __launch_bounds__(kWarp* kSumRows)
    one_unit_gradients_kernel(OneUnitGradients<T> of) {
  const int64_t j = (static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x) * kSize;
  const int64_t begin = blockIdx.y * of.rows_each, end = min(begin + of.rows_each, of.rows);
  float sums[kSize] = {}, bias = 0.0f, weights[kSize] = {};
  const bool inside = j < of.cols;
  for (int k = 0; inside && k < kSize; ++k) weights[k] = of.weight[j + k];
#pragma unroll 4
  for (int64_t r = begin + threadIdx.y; r < end; r += kSumRows) {
    const float d = of.template slope<F>(r);
    bias += d;
    if (!inside) continue;
    T values[kSize], gradients[kSize];
    if constexpr (kSize == 1) {
      values[0] = of.x[r * of.cols + j];
      if (kAdd) gradients[0] = of.dx[r * of.cols + j];
    } else {
      *reinterpret_cast<Packet<T>*>(values) = load_packet(of.x + r * of.cols + j);
      if (kAdd) *reinterpret_cast<Packet<T>*>(gradients) = load_packet(of.dx + r * of.cols + j);
    }
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      sums[k] += d * widen(values[k]);
      put<kAdd>(gradients[k], d * weights[k]);
    }
    if constexpr (kWrite && kSize == 1) of.dx[r * of.cols + j] = gradients[0];
    if constexpr (kWrite && kSize > 1)
      store_packet(of.dx + r * of.cols + j, *reinterpret_cast<Packet<T>*>(gradients));
  }
  store_sums(sums, inside, of.weight_parts + blockIdx.y * of.cols + j);
  bias = sum_over_y(bias);
  if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) of.bias_parts[blockIdx.y] = bias;
}

template <class F, int kSize, class T>
void launch_gradients(const Context& context, Write write, int64_t groups,
                      const OneUnitGradients<T>& of) {
  auto* kernel = write == Write::kNone        ? one_unit_gradients_kernel<F, false, false, kSize, T>
                 : write == Write::kOverwrite ? one_unit_gradients_kernel<F, true, false, kSize, T>
                                              : one_unit_gradients_kernel<F, true, true, kSize, T>;
  kernel<<<column_blocks((of.cols + kSize - 1) / kSize, groups), column_threads(), 0,
           context.stream>>>(of);
  check_launch("launching the gradients of a linear layer of one unit");
}

}  // namespace

void Linear::forward_one_unit(const OpContext& pass) {
  const float* bias = bias_ < 0 ? nullptr : pass.parameters + bias_;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_fused_activation(activation_, [&](auto f) {
      using F = decltype(f);
      const bool packed = cuda::in_packets<T>(in(0).stride);
      auto* kernel = packed ? packed_one_unit_kernel<F, T> : one_unit_kernel<F, T>;
      const int64_t warps = packed ? (pass.rows + kRowsEach - 1) / kRowsEach : pass.rows;
      kernel<<<cuda::row_blocks(warps), cuda::row_threads(), 0, pass.context.stream>>>(
          pass.rows, in(0).stride, in(0).value<T>(), pass.parameters + weight_, bias,
          out().value<T>());
      cuda::check_launch("launching a linear layer of one unit");
    });
  });
}

void Linear::backward_one_unit(const OpContext& pass) {
  const RowGroups groups = device_row_groups(pass.rows);
  const int64_t inputs = in(0).stride;
  float* bias_parts = pass.workspace + groups.count * inputs;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const OneUnitGradients<T> of{
        pass.rows,        inputs,           groups.rows_each,          out().gradient<T>(),
        out().value<T>(), in(0).value<T>(), pass.parameters + weight_, in(0).gradient<T>(),
        pass.workspace,   bias_parts};
    with_fused_activation(activation_, [&](auto f) {
      using F = decltype(f);
      cuda::with_size<T>(inputs, [&](auto size) {
        launch_gradients<F, decltype(size)::value>(pass.context, write(0), groups.count, of);
      });
    });
  });
  cuda::add_parts<1>(pass.context, inputs_, inputs, groups.count, pass.workspace,
                     {{pass.gradients + weight_}});
  if (bias_ >= 0)
    cuda::add_parts<1>(pass.context, 1, 1, groups.count, bias_parts, {{pass.gradients + bias_}});
}

}  // namespace emblem
