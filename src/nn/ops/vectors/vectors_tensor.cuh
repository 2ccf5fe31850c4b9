// nn/ops/vectors/vectors_tensor.cuh - products of lists of vectors in 16 bits on tensor cores, sums
// in fp32.
//
// A warp takes tiles of mma.cuh. Lists are short and rows many, so that operands come straight from
// memory: what warps share is in the cache.
#pragma once

#include "core/math/half_pair.cuh"
#include "nn/ops/launch.cuh"
#include "nn/ops/mma.cuh"

namespace emblem::cuda {

// Two neighbouring elements of a vector are read at once.
template <class T>
bool fits_tensor_cores(int64_t dim) {
  return !std::is_same_v<T, float> && dim % 2 == 0;
}

// Which elements of a tile a lane holds: rows (or columns) `group` and group + 8, and of the inner
// dimension `pair`, pair + 1, pair + 8 and pair + 9.
struct Lane {
  int group, pair;
  __device__ Lane() : group(threadIdx.x / 4), pair(threadIdx.x % 4 * 2) {}
};

__device__ inline uint32_t join_two(uint16_t low, uint16_t high) {
  return low | static_cast<uint32_t>(high) << 16;
}
template <class T>
__device__ uint32_t load_two(const T* from) {  // neighbours
  return *reinterpret_cast<const uint32_t*>(from);
}

// [count, dim] vectors of every row.
template <class T>
struct List {
  const T* data;
  int count, dim;
  __device__ const T* vector(int64_t r, int i) const { return data + (r * count + i) * dim; }
  // Elements d and d + 1 of vector i; 0 outside.
  __device__ uint32_t two(int64_t r, int i, int d) const {
    return i < count && d < dim ? load_two(vector(r, i) + d) : 0;
  }
  __device__ uint16_t bits(int64_t r, int i, int d) const {
    return i < count && d < dim ? vector(r, i)[d].bits : 0;
  }
  __device__ float at(int64_t r, int i, int d) const {
    return i < count && d < dim ? widen(vector(r, i)[d]) : 0.0f;
  }
};

// ---- a product of two small matrices for each row ----

// Strides are in elements; batch_stride is 0 for a matrix of all rows.
template <class T>
struct SmallMatrix {
  const T* data;
  int rows, columns, row_stride, column_stride;
  int64_t batch_stride;
};

// to[r] = (or +=) left(r) right(r), [rows of left, columns of right] elements for each of `rows`.
template <class T>
void multiply_rows(const Context& context, Write write, int64_t rows, const SmallMatrix<T>& left,
                   const SmallMatrix<T>& right, T* to);

// ---- sums over rows of products of vectors ----

constexpr int kLeftVectors = 32;  // two tiles

// Columns of the right-hand side: the vectors of a list.
template <class T>
struct VectorColumns {
  static constexpr int kTiles = 4;  // tiles of 8 columns of a block
  static constexpr int kSumWarps = 8;
  List<T> list;

  __host__ __device__ int total() const { return list.count; }
  __host__ __device__ int blocks() const { return (list.count + kTiles * 8 - 1) / (kTiles * 8); }
  __device__ void load(int64_t r, int block, int d, int group, uint32_t (&tiles)[kTiles][2]) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int i = (block * kTiles + t) * 8 + group;
      tiles[t][0] = list.two(r, i, d);
      tiles[t][1] = list.two(r, i, d + 8);
    }
  }
  // Where column j of a tile belongs; -1: nowhere.
  __device__ int column(int block, int tile, int j) const {
    const int i = (block * kTiles + tile) * 8 + j;
    return i < list.count ? i : -1;
  }
};

// A block: left vectors [32] x columns [kTiles * 8], for the rows of a group. Warps take rows by
// turns; their sums are added in order.
template <class T, class Columns>
__global__ void __launch_bounds__(kWarp* Columns::kSumWarps)
    outer_parts_kernel(int64_t rows, int64_t rows_each, List<T> left, Columns columns,
                       float* parts) {
  constexpr int kTiles = Columns::kTiles, kSumWarps = Columns::kSumWarps;
  __shared__ float shared[kSumWarps][2 * kTiles * 4][kWarp];
  const Lane lane;
  const int block = blockIdx.x % columns.blocks(),
            first = blockIdx.x / columns.blocks() * kLeftVectors;
  const int64_t begin = blockIdx.y * rows_each, end = min(begin + rows_each, rows);
  float sums[2][kTiles][4] = {};
  for (int64_t r = begin + threadIdx.y; r < end; r += kSumWarps) {
    for (int d = lane.pair; d < left.dim + lane.pair; d += 16) {
      uint32_t right[kTiles][2];
      columns.load(r, block, d, lane.group, right);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = first + half * 16 + lane.group;
        const uint32_t a0 = left.two(r, i, d), a1 = left.two(r, i + 8, d),
                       a2 = left.two(r, i, d + 8), a3 = left.two(r, i + 8, d + 8);
#pragma unroll
        for (int t = 0; t < kTiles; ++t)
          multiply_tile<T>(sums[half][t], a0, a1, a2, a3, right[t][0], right[t][1]);
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        shared[threadIdx.y][(half * kTiles + t) * 4 + k][threadIdx.x] = sums[half][t][k];
    }
  }
  __syncthreads();
  parts += static_cast<int64_t>(blockIdx.y) * left.count * columns.total();
  for (int e = threadIdx.y; e < 2 * kTiles * 4; e += kSumWarps) {
    float sum = shared[0][e][threadIdx.x];
#pragma unroll
    for (int warp = 1; warp < kSumWarps; ++warp) sum += shared[warp][e][threadIdx.x];
    const int k = e % 4, half = e / 4 / kTiles;
    const int i = first + half * 16 + lane.group + k / 2 * 8;
    const int column = columns.column(block, e / 4 % kTiles, lane.pair + k % 2);
    if (i < left.count && column >= 0) parts[i * columns.total() + column] = sum;
  }
}

// to[i * columns + c] = the sum over rows and elements of left vector i times column c. The
// workspace has as many floats for each group of rows.
template <class T, class Columns>
void outer_sums(const Context& context, int64_t rows, const List<T>& left, const Columns& columns,
                float* workspace, float* to) {
  const RowGroups groups = device_row_groups(rows);
  const int64_t size = static_cast<int64_t>(left.count) * columns.total();
  if (groups.count > 0) {
    const dim3 grid(columns.blocks() * blocks_of(left.count, kLeftVectors),
                    static_cast<unsigned>(groups.count));
    outer_parts_kernel<T><<<grid, dim3(kWarp, Columns::kSumWarps), 0, context.stream>>>(
        rows, groups.rows_each, left, columns, workspace);
    check_launch("launching sums of products of vectors");
  }
  add_parts<1>(context, size, size, groups.count, workspace, {{to}});
}

}  // namespace emblem::cuda
