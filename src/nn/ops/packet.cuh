// nn/ops/packet.cuh - 16 bytes of a row at a time.
#pragma once

#include "nn/ops/launch.cuh"

namespace emblem::cuda {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Elements {
  static constexpr int kSize = kCount;
  T at[kCount];
};
// As many as 16 bytes hold.
template <class T>
using Packet = Elements<T, 16 / sizeof(T)>;

template <int kCount, class T>
__device__ Elements<T, kCount> load_elements(const T* from) {
  return *reinterpret_cast<const Elements<T, kCount>*>(from);
}
template <class T>
__device__ Packet<T> load_packet(const T* from) {
  return load_elements<Packet<T>::kSize>(from);
}
template <class T, int kCount>
__device__ void store_packet(T* to, const Elements<T, kCount>& values) {
  *reinterpret_cast<Elements<T, kCount>*>(to) = values;
}

// Whether rows of `cols` elements can be read in packets.
template <class T>
bool in_packets(int64_t cols) {
  return cols % Packet<T>::kSize == 0;
}

// Calls body with how many elements of a row of `cols` can be taken at a time.
template <class T, class Body>
void with_size(int64_t cols, Body&& body) {
  if (in_packets<T>(cols))
    body(std::integral_constant<int, Packet<T>::kSize>{});
  else
    body(std::integral_constant<int, 1>{});
}

// The sums over threadIdx.y of a packet of columns, written by threads with y = 0.
template <int kSize>
__device__ void store_sums(const float (&sums)[kSize], bool inside, float* to) {
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float sum = sum_over_y(sums[k]);
    if (threadIdx.y == 0 && inside) to[k] = sum;
  }
}

// parts[(group * kSums + s) * cols + j] = the sum over the rows r of a group of what f(r, j, sums)
// adds to sums[s], kSize columns from j on at a time.
template <int kSums, int kSize, class F>
__global__ void __launch_bounds__(kWarp* kSumRows)
    packed_column_parts_kernel(int64_t rows, int64_t cols, int64_t rows_each, F f, float* parts) {
  const int64_t j = (static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x) * kSize;
  const int64_t begin = blockIdx.y * rows_each, end = min(begin + rows_each, rows);
  float sums[kSums][kSize] = {};
  if (j < cols) {
#pragma unroll 4
    for (int64_t r = begin + threadIdx.y; r < end; r += kSumRows) f(r, j, sums);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s)
    store_sums(sums[s], j < cols, parts + (blockIdx.y * kSums + s) * cols + j);
}

// As column_sums, for rows of `stride` elements of which the first `cols` are summed. f may change
// elements. The workspace has kSums * stride floats for each group.
template <int kSums, int kSize, class F>
void packed_column_sums(const Context& context, int64_t rows, int64_t cols, int64_t stride, F f,
                        float* workspace, SumTargets<kSums> targets) {
  const RowGroups groups = device_row_groups(rows);
  if (groups.count > 0) {
    packed_column_parts_kernel<kSums, kSize>
        <<<column_blocks((stride + kSize - 1) / kSize, groups.count), column_threads(), 0,
           context.stream>>>(rows, stride, groups.rows_each, f, workspace);
    check_launch("launching a sum over rows");
  }
  add_parts(context, cols, stride, groups.count, workspace, targets);
}

}  // namespace emblem::cuda
