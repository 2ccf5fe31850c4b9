// nn/ops/launch.cuh - how the kernels of the ops are cut and launched.
//
// Sums are made in an order that depends on the shape alone, so that every run gives the same
// bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "core/math/half.h"
#include "nn/ops/op.h"

namespace emblem::cuda {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

inline void check_launch(const char* kernel) { cuda_check(cudaGetLastError(), kernel); }

// ---- types of elements; kernels compute in fp32 ----

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(Bf16 x) { return x.to_float(); }
__device__ inline float widen(F16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline uint8_t widen(uint8_t x) { return x; }  // bytes of a mask

template <class T>
__device__ T narrow(float x) {
  if constexpr (std::is_same_v<T, Bf16>) return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  if constexpr (std::is_same_v<T, F16>) return {__half_as_ushort(__float2half_rn(x))};
  if constexpr (std::is_same_v<T, float>) return x;
}

// to = (or +=) value
template <bool kAdd, class T>
__device__ void put(T& to, float value) {
  to = narrow<T>((kAdd ? widen(to) : 0.0f) + value);
}

// Calls body with a value of the type, so that kernels are compiled for each.
template <class Body>
void with_type(DType type, Body&& body) {
  switch (type) {
    case DType::kF32:
      return body(float{});
    case DType::kF16:
      return body(F16{});
    case DType::kBf16:
      return body(Bf16{});
  }
}

// ---- elementwise ----

// The row and the column of element i of rows of `cols`; divisions of 64 bits are slow.
__device__ inline int64_t row_of(int64_t i, int64_t cols) {
  return i >> 32 == 0 ? static_cast<uint32_t>(i) / static_cast<uint32_t>(cols) : i / cols;
}
__device__ inline int64_t column_of(int64_t i, int64_t cols) {
  return i >> 32 == 0 ? static_cast<uint32_t>(i) % static_cast<uint32_t>(cols) : i % cols;
}

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T at[4];
};
template <class T>
__device__ Four<T> load_four(const T* from) {
  return *reinterpret_cast<const Four<T>*>(from);
}
template <class T>
__device__ void store_four(T* to, const Four<T>& values) {
  *reinterpret_cast<Four<T>*>(to) = values;
}

template <bool kAdd, class F, class To, class... Values>
__device__ void map_four(F f, int64_t begin, Four<To>& out, const Values&... in) {
#pragma unroll
  for (int k = 0; k < 4; ++k) put<kAdd>(out.at[k], f(begin + k, widen(in.at[k])...));
}

// to[i] = (or +=) f(i, from[i]...); four elements per thread. `to` may be one of `from`.
template <bool kAdd, class F, class To, class... From>
__global__ void __launch_bounds__(kThreads)
    map_kernel(int64_t count, F f, To* to, const From*... from) {
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
  if (begin + 4 <= count) {
    Four<To> out;
    if (kAdd) out = load_four(to + begin);
    map_four<kAdd>(f, begin, out, load_four(from + begin)...);
    store_four(to + begin, out);
  } else {
    for (int64_t i = begin; i < count; ++i) put<kAdd>(to[i], f(i, widen(from[i])...));
  }
}

// Pointers must be aligned to 16 bytes, as all nodes of a graph are.
template <class F, class To, class... From>
void map(const Context& context, Write write, int64_t count, F f, To* to, const From*... from) {
  if (count == 0) return;
  with_write(write, [&](auto add) {
    constexpr bool kAdd = decltype(add)::value;
    map_kernel<kAdd>
        <<<blocks_of(count, 4 * kThreads), kThreads, 0, context.stream>>>(count, f, to, from...);
    check_launch("launching an elementwise kernel");
  });
}

// An f for it.
struct Copy {
  __device__ float operator()(int64_t, float x) const { return x; }
};

// ---- a warp for each row ----

inline dim3 row_blocks(int64_t rows) { return dim3(blocks_of(rows, kWarps)); }
inline dim3 row_threads() { return dim3(kWarp, kWarps); }
__device__ inline int64_t row_of_warp() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

// The sum over a warp, in every lane.
__device__ inline float warp_sum(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

// Some lanes of a warp for each row, a power of 2 of them: enough for `items` of a row.
inline int lanes_for(int64_t items) {
  int lanes = 1;
  while (lanes < kWarp && lanes < items) lanes *= 2;
  return lanes;
}
inline dim3 lane_blocks(int64_t rows, int lanes) { return dim3(blocks_of(rows * lanes, kThreads)); }
__device__ inline int64_t row_of_lanes(int lanes) {
  return row_of(static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, lanes);
}
// The sum over these lanes, in each of them.
__device__ inline float lane_sum(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

// ---- sums over rows ----

constexpr int kSumRows = 8;  // rows that a block of 32 columns reads at once

inline dim3 column_blocks(int64_t cols, int64_t groups) {
  return dim3(blocks_of(cols, kWarp), static_cast<unsigned>(groups));
}
inline dim3 column_threads() { return dim3(kWarp, kSumRows); }

// The sum over threadIdx.y, for threads with y = 0.
template <int kRows = kSumRows>
__device__ float sum_over_y(float value) {
  __shared__ float shared[kRows][kWarp];
  __syncthreads();  // a sum before may still be read
  shared[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  float sum = shared[0][threadIdx.x];
  for (int y = 1; y < kRows; ++y) sum += shared[y][threadIdx.x];
  return sum;
}

// parts[(group * kSums + s) * cols + j] = the sum over the rows r of a group of f(r, j, values)'s
// values[s].
template <int kSums, class F>
__global__ void __launch_bounds__(kWarp* kSumRows)
    column_parts_kernel(int64_t rows, int64_t cols, int64_t rows_each, F f, float* parts) {
  const int64_t j = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const int64_t begin = blockIdx.y * rows_each, end = min(begin + rows_each, rows);
  float sums[kSums] = {};
  if (j < cols) {
    for (int64_t r = begin + threadIdx.y; r < end; r += kSumRows) {
      float values[kSums];
      f(r, j, values);
      for (int s = 0; s < kSums; ++s) sums[s] += values[s];
    }
  }
  for (int s = 0; s < kSums; ++s) {
    const float sum = sum_over_y(sums[s]);
    if (threadIdx.y == 0 && j < cols) parts[(blockIdx.y * kSums + s) * cols + j] = sum;
  }
}

template <int kSums>
struct SumTargets {
  float* to[kSums];
};
constexpr int kAddedAtOnce = 32;  // groups that a block of 32 columns reads at once
template <int kSums>
__global__ void __launch_bounds__(kWarp* kAddedAtOnce)
    add_parts_kernel(int64_t cols, int64_t stride, int64_t groups, const float* parts,
                     SumTargets<kSums> targets) {
  const int64_t j = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  for (int s = 0; s < kSums; ++s) {
    float sum = 0.0f;
#pragma unroll 8
    for (int64_t group = threadIdx.y; group < groups; group += kAddedAtOnce)
      sum += j < cols ? parts[(group * kSums + s) * stride + j] : 0.0f;
    sum = sum_over_y<kAddedAtOnce>(sum);
    if (threadIdx.y == 0 && j < cols) targets.to[s][j] = sum;
  }
}

// targets.to[s][j] = the sum over groups of parts, as column_parts_kernel leaves them for `stride`
// columns, of which the first `cols` are of interest.
template <int kSums>
void add_parts(const Context& context, int64_t cols, int64_t stride, int64_t groups,
               const float* parts, SumTargets<kSums> targets) {
  add_parts_kernel<kSums><<<blocks_of(cols, kWarp), dim3(kWarp, kAddedAtOnce), 0, context.stream>>>(
      cols, stride, groups, parts, targets);
  check_launch("launching a sum over groups of rows");
}

// targets.to[s][j] = the sum over all rows r of the values[s] that f(r, j, values) gives; f is
// called once for each element and may change it. The workspace has kSums * cols floats for each
// group.
template <int kSums, class F>
void column_sums(const Context& context, int64_t rows, int64_t cols, F f, float* workspace,
                 SumTargets<kSums> targets) {
  const RowGroups groups = device_row_groups(rows);
  if (groups.count > 0) {
    column_parts_kernel<kSums>
        <<<column_blocks(cols, groups.count), column_threads(), 0, context.stream>>>(
            rows, cols, groups.rows_each, f, workspace);
    check_launch("launching a sum over rows");
  }
  add_parts(context, cols, cols, groups.count, workspace, targets);
}

}  // namespace emblem::cuda
