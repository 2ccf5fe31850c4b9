#include "nn/ops/packet.cuh"
#include "nn/ops/vectors/mix.h"

namespace emblem {
namespace {

constexpr int kMostAtOnce = 16;  // experts of a kernel

// Some of the experts, from number `first` on, of `all`. Rows of gates have gate_stride elements.
template <class T>
struct Experts {
  const T* values[kMostAtOnce];
  T* gradients[kMostAtOnce];
  Write writes[kMostAtOnce];
  int first, count, all, gate_stride;
};

// kSize columns per thread.
template <int kSize, bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    mix_kernel(int64_t rows, int64_t cols, const T* gates, Experts<T> experts, T* y) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x) * kSize;
  if (i >= rows * cols) return;
  const T* gate = gates + cuda::row_of(i, cols) * experts.gate_stride + experts.first;
  float sums[kSize] = {};
  for (int k = 0; k < experts.count; ++k) {
    const float weight = cuda::widen(gate[k]);
    const auto values = cuda::load_elements<kSize>(experts.values[k] + i);
#pragma unroll
    for (int e = 0; e < kSize; ++e) sums[e] += weight * cuda::widen(values.at[e]);
  }
  cuda::Elements<T, kSize> to{};
  if (kAdd) to = cuda::load_elements<kSize>(y + i);
#pragma unroll
  for (int e = 0; e < kSize; ++e) cuda::put<kAdd>(to.at[e], sums[e]);
  cuda::store_packet(y + i, to);
}

// The gradients of an expert's row, and their part of its gate's.
template <int kSize, class T>
__device__ float to_expert(int64_t cols, int64_t begin, float gate, const T* dy, const T* value,
                           Write write, T* gradient) {
  float product = 0.0f;
  for (int64_t j = begin + threadIdx.x * kSize; j < begin + cols; j += cuda::kWarp * kSize) {
    const auto d = cuda::load_elements<kSize>(dy + j), v = cuda::load_elements<kSize>(value + j);
    cuda::Elements<T, kSize> to{};
    if (write == Write::kAdd) to = cuda::load_elements<kSize>(gradient + j);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      product += cuda::widen(d.at[e]) * cuda::widen(v.at[e]);
      cuda::put<true>(to.at[e], gate * cuda::widen(d.at[e]));  // to zeros, or to what was there
    }
    if (write != Write::kNone) cuda::store_packet(gradient + j, to);
  }
  return cuda::warp_sum(product);
}

// A warp for each row.
template <int kSize, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    mix_gradient_kernel(int64_t rows, int64_t cols, const T* gates, Experts<T> experts, const T* dy,
                        Write gate_write, T* gate_gradients) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  const int64_t gate = r * experts.gate_stride + experts.first;
  for (int k = 0; k < experts.count; ++k) {
    const float product =
        to_expert<kSize>(cols, r * cols, cuda::widen(gates[gate + k]), dy, experts.values[k],
                         experts.writes[k], experts.gradients[k]);
    if (threadIdx.x != 0 || gate_write == Write::kNone) continue;
    T& to = gate_gradients[gate + k];
    if (gate_write == Write::kAdd)
      cuda::put<true>(to, product);
    else
      cuda::put<false>(to, product);
  }
  if (gate_write != Write::kOverwrite || experts.first + experts.count < experts.all) return;
  for (int k = experts.all + threadIdx.x; k < experts.gate_stride; k += cuda::kWarp)
    gate_gradients[r * experts.gate_stride + k] = cuda::narrow<T>(0.0f);
}

}  // namespace

void Mix::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const int64_t cols = out().stride, all = experts();
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::with_size<T>(cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      for (int64_t first = 0; first < all; first += kMostAtOnce) {
        Experts<T> some{.first = static_cast<int>(first),
                        .count = static_cast<int>(std::min<int64_t>(kMostAtOnce, all - first)),
                        .all = static_cast<int>(all),
                        .gate_stride = static_cast<int>(in(0).stride)};
        for (int k = 0; k < some.count; ++k) some.values[k] = in(1 + first + k).value<T>();
        with_write(first == 0 ? Write::kOverwrite : Write::kAdd, [&](auto add) {
          mix_kernel<kSize, decltype(add)::value>
              <<<cuda::blocks_of(pass.rows * cols, kSize * cuda::kThreads), cuda::kThreads, 0,
                 pass.context.stream>>>(pass.rows, cols, in(0).value<const T>(), some,
                                        out().value<T>());
        });
        cuda::check_launch("launching a mixture of experts");
      }
    });
  });
}

void Mix::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const int64_t cols = out().stride, all = experts();
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::with_size<T>(cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      for (int64_t first = 0; first < all; first += kMostAtOnce) {
        Experts<T> some{.first = static_cast<int>(first),
                        .count = static_cast<int>(std::min<int64_t>(kMostAtOnce, all - first)),
                        .all = static_cast<int>(all),
                        .gate_stride = static_cast<int>(in(0).stride)};
        for (int k = 0; k < some.count; ++k) {
          some.values[k] = in(1 + first + k).value<T>();
          some.gradients[k] = in(1 + first + k).gradient<T>();
          some.writes[k] = write(1 + first + k);
        }
        mix_gradient_kernel<kSize>
            <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
                pass.rows, cols, in(0).value<const T>(), some, out().gradient<const T>(), write(0),
                in(0).gradient<T>());
        cuda::check_launch("launching the gradient of a mixture of experts");
      }
    });
  });
}

}  // namespace emblem
