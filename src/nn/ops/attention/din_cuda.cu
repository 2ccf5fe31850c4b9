#include "nn/ops/attention/din.h"
#include "nn/ops/lanes.cuh"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace {

using namespace cuda;

template <class T>
struct DinArguments {
  int64_t rows, elements, n, m;
  const int32_t *offsets, *row_of;
  const T *q, *s;
};

template <int kSize, class T>
__device__ void store_floats(const float (&values)[kSize], T* to) {
  write_packet(Write::kOverwrite, values, to);
}

// A thread for kSize columns of an element; rows of padding become zero.
template <int kSize, class T>
__global__ void __launch_bounds__(kThreads) din_features_kernel(DinArguments<T> of, T* y) {
  const auto in_row = static_cast<unsigned>(of.m / kSize);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= of.elements * in_row) return;
  const int64_t e = i / in_row, j = i % in_row * kSize;
  const int32_t r = of.row_of[e];
  float q[kSize] = {}, s[kSize] = {}, difference[kSize], product[kSize];
  if (r >= 0) {
    const auto element = load_elements<kSize>(of.s + e * of.m + j);
    Elements<T, kSize> row{};
    if (j < of.n) row = load_elements<kSize>(of.q + r * of.n + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      q[k] = widen(row.at[k]);
      s[k] = widen(element.at[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    difference[k] = q[k] - s[k];
    product[k] = q[k] * s[k];
  }
  y += e * 4 * of.m + j;
  store_floats(q, y);
  store_floats(s, y + of.m);
  store_floats(difference, y + 2 * of.m);
  store_floats(product, y + 3 * of.m);
}

// A thread for kSize columns of a row, over its elements from one to the next.
template <int kSize, class T>
__global__ void __launch_bounds__(kThreads)
    din_gradients_kernel(DinArguments<T> of, const T* dy, Write write_q, T* dq, Write write_s,
                         T* ds) {
  const auto in_row = static_cast<unsigned>(of.m / kSize);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= of.rows * in_row) return;
  const int64_t r = i / in_row, j = i % in_row * kSize;
  const bool in_q = j < of.n;
  Elements<T, kSize> q{};
  if (in_q) q = load_elements<kSize>(of.q + r * of.n + j);
  float sums[kSize] = {};
#pragma unroll 2
  for (int64_t e = of.offsets[r]; e < of.offsets[r + 1]; ++e) {
    const T* d = dy + e * 4 * of.m + j;
    const auto to_q = load_elements<kSize>(d), to_s = load_elements<kSize>(d + of.m),
               to_difference = load_elements<kSize>(d + 2 * of.m),
               to_product = load_elements<kSize>(d + 3 * of.m),
               s = load_elements<kSize>(of.s + e * of.m + j);
    float gradient[kSize];
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float difference = widen(to_difference.at[k]), product = widen(to_product.at[k]);
      sums[k] += widen(to_q.at[k]) + difference + product * widen(s.at[k]);
      gradient[k] = widen(to_s.at[k]) - difference + product * widen(q.at[k]);
    }
    write_packet(write_s, gradient, ds + e * of.m + j);
  }
  if (in_q) write_packet(write_q, sums, dq + r * of.n + j);
}

// A group of lanes for each element.
template <int kSize, class T>
__global__ void __launch_bounds__(kThreads) dot_with_row_kernel(DinArguments<T> of, T* y) {
  const int packets = static_cast<int>(of.m / kSize);
  const LaneGroups groups(packets);
  const int64_t e = row_of_warp() * groups.count + groups.group();
  const int32_t r = e < of.elements ? of.row_of[e] : -1;
  float sum = 0.0f;
  for (int packet = groups.lane(); r >= 0 && packet < packets; packet += groups.lanes) {
    const auto q = load_elements<kSize>(of.q + r * of.m + packet * kSize),
               s = load_elements<kSize>(of.s + e * of.m + packet * kSize);
#pragma unroll
    for (int k = 0; k < kSize; ++k) sum += widen(q.at[k]) * widen(s.at[k]);
  }
  sum = groups.sum_of_group(sum);
  if (groups.lane() == 0 && e < of.elements) y[e] = narrow<T>(sum);
}

template <int kSize, class T>
__global__ void __launch_bounds__(kThreads)
    dot_gradients_kernel(DinArguments<T> of, const T* dy, Write write_q, T* dq, Write write_s,
                         T* ds) {
  const auto in_row = static_cast<unsigned>(of.m / kSize);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= of.rows * in_row) return;
  const int64_t r = i / in_row, j = i % in_row * kSize;
  const auto q = load_elements<kSize>(of.q + r * of.m + j);
  float sums[kSize] = {};
#pragma unroll 4
  for (int64_t e = of.offsets[r]; e < of.offsets[r + 1]; ++e) {
    const float d = widen(dy[e]);
    const auto s = load_elements<kSize>(of.s + e * of.m + j);
    float gradient[kSize];
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      sums[k] += d * widen(s.at[k]);
      gradient[k] = d * widen(q.at[k]);
    }
    write_packet(write_s, gradient, ds + e * of.m + j);
  }
  write_packet(write_q, sums, dq + r * of.m + j);
}

template <class T>
DinArguments<T> arguments(const OpContext& pass, const Tensor& q, const Tensor& s) {
  return {pass.batch_rows, pass.rows,   q.cols,       s.cols,
          pass.offsets,    pass.row_of, q.value<T>(), s.value<T>()};
}

// Warps for all elements, and the columns that a lane takes.
int64_t warps_of(int64_t elements, int64_t packets) {
  int64_t lanes = 1;
  while (lanes < packets && lanes < kWarp) lanes *= 2;
  return (elements * lanes + kWarp - 1) / kWarp;
}

}  // namespace

void DinFeatures::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_size_of_both<T>(in(0).cols, in(1).cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      din_features_kernel<kSize, T>
          <<<blocks_of(pass.rows * in(1).cols / kSize, kThreads), kThreads, 0,
             pass.context.stream>>>(arguments<T>(pass, in(0), in(1)), out().value<T>());
      check_launch("launching features of attention");
    });
  });
}

void DinFeatures::backward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_size_of_both<T>(in(0).cols, in(1).cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      din_gradients_kernel<kSize, T>
          <<<blocks_of(pass.batch_rows * in(1).cols / kSize, kThreads), kThreads, 0,
             pass.context.stream>>>(arguments<T>(pass, in(0), in(1)), out().gradient<T>(), write(0),
                                    in(0).gradient<T>(), write(1), in(1).gradient<T>());
      check_launch("launching the gradient of features of attention");
    });
  });
  if (write(1) == Write::kOverwrite)
    clear_padding(pass, in(1).dtype, in(1).cols, in(1).gradient_data);
}

void DotWithRow::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_size<T>(in(1).cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      dot_with_row_kernel<kSize, T>
          <<<row_blocks(warps_of(pass.rows, in(1).cols / kSize)), row_threads(), 0,
             pass.context.stream>>>(arguments<T>(pass, in(0), in(1)), out().value<T>());
      check_launch("launching dot products with rows");
    });
  });
}

void DotWithRow::backward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_size<T>(in(1).cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      dot_gradients_kernel<kSize, T>
          <<<blocks_of(pass.batch_rows * in(1).cols / kSize, kThreads), kThreads, 0,
             pass.context.stream>>>(arguments<T>(pass, in(0), in(1)), out().gradient<T>(), write(0),
                                    in(0).gradient<T>(), write(1), in(1).gradient<T>());
      check_launch("launching the gradient of dot products with rows");
    });
  });
  if (write(1) == Write::kOverwrite)
    clear_padding(pass, in(1).dtype, in(1).cols, in(1).gradient_data);
}

}  // namespace emblem
