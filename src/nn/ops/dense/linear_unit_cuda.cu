// A linear layer of one unit: a vector in the place of the weight matrix, read in fp32. Where rows
// of the input are padded with zeros, so is the vector.
#include "nn/ops/dense/activation.h"
#include "nn/ops/dense/linear.h"
#include "nn/ops/vectors/packed_sums.cuh"

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

// What one pass over x gives: the gradients of x, and the sums over rows for those of the weights
// and of the bias. kAdd: whether the gradients of x are added to.
template <class F, bool kAdd, int kSize, class T>
struct OneUnitGradients {
  struct Loaded {
    float d;
    Elements<T, kSize> x, dx;
  };
  const T *dy, *y, *x;
  const float* weight;
  T* dx;  // null: not written
  int64_t cols;

  __device__ Loaded load(int64_t r, int64_t j) const {
    Loaded loaded{widen(dy[r]) * F::slope(widen(y[r])), load_elements<kSize>(x + r * cols + j), {}};
    if (kAdd) loaded.dx = load_elements<kSize>(dx + r * cols + j);
    return loaded;
  }
  __device__ void add(int64_t r, int64_t j, const Loaded& loaded, float (&sums)[2][kSize]) const {
    const auto weights = load_elements<kSize>(weight + j);
    Elements<T, kSize> to = loaded.dx;
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      sums[0][k] += loaded.d * widen(loaded.x.at[k]);
      put<kAdd>(to.at[k], loaded.d * weights.at[k]);
    }
    sums[1][0] += loaded.d;
    if (dx != nullptr) store_packet(dx + r * cols + j, to);
  }
};

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
  const int64_t inputs = in(0).stride;
  const PackedSums<2> sums{{{pass.gradients + weight_, inputs_},
                            {pass.gradients + std::max<int64_t>(0, bias_), bias_ < 0 ? 0 : 1}}};
  const auto run = [&]<class T, class F>(T, F, auto add) {
    cuda::with_size<T>(inputs, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      const OneUnitGradients<F, decltype(add)::value, kSize, T> of{
          out().gradient<T>(),
          out().value<T>(),
          in(0).value<T>(),
          pass.parameters + weight_,
          write(0) == Write::kNone ? nullptr : in(0).gradient<T>(),
          inputs};
      packed_column_sums<2, kSize>(pass, pass.rows, inputs, of, sums);
    });
  };
  cuda::with_type(out().dtype, [&](auto type) {
    with_fused_activation(activation_, [&](auto f) {
      if (write(0) == Write::kAdd)
        run(type, f, std::true_type{});
      else
        run(type, f, std::false_type{});
    });
  });
}

}  // namespace emblem
