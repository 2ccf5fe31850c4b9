// nn/ops/vectors/packed_sums.cuh - sums over rows, 16 bytes of a row at a time, in one kernel.
//
// A block sums some columns of a group of rows; the last block to finish those columns adds what
// the groups gave, always in the same order.
#pragma once

#include "nn/ops/packet.cuh"

namespace emblem::cuda {

constexpr int kSumsAtOnce = 4;  // packets that a thread has on their way

// The columns that a block of kThreads threads sums, kSize of them a thread.
template <int kSize>
struct SumShape {
  static constexpr int kLanes = kSize == 1 ? kWarp : 8;
  static constexpr int kRows = kThreads / kLanes;  // that the block reads at once
  static constexpr int kCols = kLanes * kSize;
};
static_assert(SumShape<1>::kCols >= kLeastSummedCols && SumShape<4>::kCols >= kLeastSummedCols);

// Thread t has kSize columns from t % kLanes * kSize on. Gives thread c the sum of column c over
// all threads that have it, for c below kLanes * kSize.
template <int kLanes, int kSize>
__device__ float sum_over_block(const float (&values)[kSize]) {
  constexpr int kCols = kLanes * kSize;
  __shared__ float shared[kWarps][kCols];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  __syncthreads();  // a sum before may still be read
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    float sum = values[k];
#pragma unroll
    for (int distance = kWarp / 2; distance >= kLanes; distance /= 2)
      sum += __shfl_xor_sync(~0u, sum, distance);
    if (lane < kLanes) shared[warp][lane * kSize + k] = sum;
  }
  __syncthreads();
  float sum = 0.0f;
  if (threadIdx.x < kCols) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared[w][threadIdx.x];
  }
  return sum;
}

// Whether this is the last of gridDim.y blocks that call it with the same counter, to which all
// that the others wrote before is visible. The counter is 0 before the first and after the last.
__device__ inline bool finishes_last(unsigned* counter) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(counter, gridDim.y - 1) == gridDim.y - 1;
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

// The sums of a block's columns, of `stride`, over the groups; distance floats from one to the
// next.
template <int kSize>
__device__ float sum_over_groups(const float* parts, int64_t first, int64_t stride,
                                 int64_t distance) {
  constexpr int kWide = kSize == 1 ? 1 : 4, kLanes = SumShape<kSize>::kCols / kWide;
  constexpr int kGroups = kThreads / kLanes;  // that are read at once
  const int64_t j = first + threadIdx.x % kLanes * kWide;
  float sums[kWide] = {};
  if (j < stride) {
#pragma unroll 8
    for (int64_t group = threadIdx.x / kLanes; group < gridDim.y; group += kGroups) {
      const float* part = parts + group * distance + j;
      if constexpr (kWide == 4) {
        const float4 values = __ldcg(reinterpret_cast<const float4*>(part));
        sums[0] += values.x, sums[1] += values.y, sums[2] += values.z, sums[3] += values.w;
      } else {
        sums[0] += __ldcg(part);
      }
    }
  }
  return sum_over_block<kLanes>(sums);
}

// Where the first `cols` sums go.
struct PackedSum {
  float* to;
  int64_t cols;
};
template <int kSums>
struct PackedSums {
  PackedSum at[kSums];
};

template <int kSums, int kSize, class F>
__global__ void __launch_bounds__(kThreads)
    packed_column_sums_kernel(int64_t rows, int64_t stride, int64_t rows_each, F f, float* parts,
                              unsigned* counters, PackedSums<kSums> sums_to) {
  using Shape = SumShape<kSize>;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * Shape::kCols, c = first + threadIdx.x;
  const int64_t j = first + threadIdx.x % Shape::kLanes * kSize;
  const int64_t begin = blockIdx.y * rows_each, end = min(begin + rows_each, rows);
  float sums[kSums][kSize] = {};
  if (j < stride) {
    for (int64_t r = begin + threadIdx.x / Shape::kLanes; r < end;
         r += Shape::kRows * kSumsAtOnce) {
      typename F::Loaded loaded[kSumsAtOnce];
#pragma unroll
      for (int i = 0; i < kSumsAtOnce; ++i)
        if (r + i * Shape::kRows < end) loaded[i] = f.load(r + i * Shape::kRows, j);
#pragma unroll
      for (int i = 0; i < kSumsAtOnce; ++i)
        if (r + i * Shape::kRows < end) f.add(r + i * Shape::kRows, j, loaded[i], sums);
    }
  }
  const int64_t distance = kSums * stride;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    const float sum = sum_over_block<Shape::kLanes>(sums[s]);
    if (threadIdx.x < Shape::kCols && c < stride)
      parts[blockIdx.y * distance + s * stride + c] = sum;
  }
  if (!finishes_last(counters + blockIdx.x)) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    const float sum = sum_over_groups<kSize>(parts + s * stride, first, stride, distance);
    if (threadIdx.x < Shape::kCols && c < sums_to.at[s].cols) sums_to.at[s].to[c] = sum;
  }
}

// sums.at[s].to[j] = the sum over all rows r of `stride` elements of what f adds to its sums[s]:
// for kSize columns from j on, f.add(r, j, f.load(r, j), sums). It may change elements there. The
// workspace has kSums * stride floats for each group.
template <int kSums, int kSize, class F>
void packed_column_sums(const OpContext& pass, int64_t rows, int64_t stride, F f,
                        PackedSums<kSums> sums) {
  const RowGroups groups = device_row_groups(rows);
  const dim3 blocks(blocks_of(stride, SumShape<kSize>::kCols),
                    static_cast<unsigned>(std::max<int64_t>(1, groups.count)));
  packed_column_sums_kernel<kSums, kSize><<<blocks, kThreads, 0, pass.context.stream>>>(
      rows, stride, groups.rows_each, f, pass.workspace, pass.counters, sums);
  check_launch("launching a sum over rows");
}

}  // namespace emblem::cuda
