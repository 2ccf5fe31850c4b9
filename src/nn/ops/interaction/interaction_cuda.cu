#include <cuda_pipeline.h>

#include "nn/ops/interaction/interaction_tensor.cuh"

namespace emblem {
namespace {

using namespace cuda;

constexpr int kProductTile = 4;  // products are made for 4 x 4 vectors at a time

// Memory of a warp: its row's vectors, `stride` floats apart, then its products.
struct RowMemory {
  int stride, tiles_across, products, floats;

  RowMemory(int vectors, int dim)
      // Four floats of padding: tiles that are read at once are then in different banks.
      : stride(static_cast<int>(round_up(dim, 4)) + 4),
        tiles_across((vectors + kProductTile - 1) / kProductTile),
        products(tiles_across * kProductTile * stride),
        floats(products + static_cast<int>(round_up(vectors * (vectors - 1) / 2, 4))) {}
};

// A tile is of vectors that are tiles_across apart, so that neighbouring tiles are neighbours in
// memory too: vectors row + a * tiles_across and col + b * tiles_across.
template <int kWidth>
__device__ void make_tile(int count, int dim, const RowMemory& of, const float* vectors, int row,
                          int col, float* products) {
  float sums[kProductTile][kProductTile] = {};
  for (int d = 0; d < dim; d += kWidth) {
    Floats<kWidth> left[kProductTile], right[kProductTile];
#pragma unroll
    for (int a = 0; a < kProductTile; ++a) {
      left[a] = load<kWidth>(vectors + (row + a * of.tiles_across) * of.stride + d);
      right[a] = load<kWidth>(vectors + (col + a * of.tiles_across) * of.stride + d);
    }
#pragma unroll
    for (int a = 0; a < kProductTile; ++a) {
#pragma unroll
      for (int b = 0; b < kProductTile; ++b) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sums[a][b] += left[a].at[k] * right[b].at[k];
      }
    }
  }
#pragma unroll
  for (int a = 0; a < kProductTile; ++a) {
#pragma unroll
    for (int b = 0; b < kProductTile; ++b) {
      const int i = row + a * of.tiles_across, j = col + b * of.tiles_across;
      const bool twice = row == col && a <= b;  // the pair comes with a and b exchanged, or is none
      if (i < count && j < count && !twice) products[pair_of(i, j)] = sums[a][b];
    }
  }
}

// Reads the vectors of a row as floats.
template <int kWidth, class T>
__device__ void gather_row(const Vectors<T>& in, int64_t r, int stride, float* vectors) {
  for (int i = threadIdx.x * kWidth; i < in.count * in.dim; i += kWarp * kWidth) {
    const int v = i / in.dim, d = i % in.dim;
    float* to = vectors + v * stride + d;
    const T* from = in.at(r, v) + d;
    if constexpr (std::is_same_v<T, float>) {
      __pipeline_memcpy_async(to, from, kWidth * sizeof(float));
    } else {
      store<kWidth>(to, load<kWidth>(from));
    }
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
}

// Zeros after the products of a row.
template <class T>
__device__ void pad_row(const Vectors<T>& in, T* products, int64_t y_stride) {
  const int64_t end = y_stride - (in.first == nullptr ? 0 : in.dim);
  for (int64_t i = first_pair_of(in.count) + threadIdx.x; i < end; i += kWarp)
    products[i] = narrow<T>(0.0f);
}

// A warp for each row, a lane for each tile.
template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    pair_products_kernel(Vectors<T> in, RowMemory of, T* y, int64_t y_stride) {
  extern __shared__ float4 shared[];
  const int64_t r = row_of_warp();
  if (r >= in.rows) return;
  const int lane = threadIdx.x;
  float* vectors = reinterpret_cast<float*>(shared) + threadIdx.y * of.floats;
  float* products = vectors + of.products;
  gather_row<kWidth>(in, r, of.stride, vectors);
  const int tiles = of.tiles_across * (of.tiles_across + 1) / 2;
  for (int tile = lane; tile < tiles; tile += kWarp) {
    int row = 0, col = tile;  // tile in the lower triangle, whose row i has i + 1 tiles
    while (col > row) col -= ++row;
    make_tile<kWidth>(in.count, in.dim, of, vectors, row, col, products);
  }
  __syncwarp();
  y += r * y_stride;
  if (in.first != nullptr) {
    for (int d = lane; d < in.dim; d += kWarp) y[d] = narrow<T>(vectors[d]);
    y += in.dim;
  }
  for (int pair = lane; pair < first_pair_of(in.count); pair += kWarp)
    y[pair] = narrow<T>(products[pair]);
  pad_row(in, y, y_stride);
}

// For rows that do not fit into shared memory: a warp for each vector of each row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    long_pair_products_kernel(Vectors<T> in, T* y, int64_t y_stride) {
  const int64_t item = row_of_warp();
  if (item >= in.rows * in.count) return;
  const int64_t r = item / in.count;
  const int i = static_cast<int>(item % in.count);
  const T* left = in.at(r, i);
  y += r * y_stride;
  if (in.first != nullptr) {
    for (int d = threadIdx.x; i == 0 && d < in.dim; d += kWarp) y[d] = left[d];
    y += in.dim;
  }
  for (int j = 0; j < i; ++j) {
    const T* right = in.at(r, j);
    float sum = 0.0f;
    for (int d = threadIdx.x; d < in.dim; d += kWarp) sum += widen(left[d]) * widen(right[d]);
    sum = warp_sum(sum);
    if (threadIdx.x == 0) y[first_pair_of(i) + j] = narrow<T>(sum);
  }
  if (i == 0) pad_row(in, y, y_stride);
}

template <int kWidth, class T>
void launch_products(const Context& context, const Vectors<T>& in, const RowMemory& of, T* y,
                     int64_t y_stride) {
  const size_t bytes = of.floats * sizeof(float);
  const unsigned warps = warps_of(bytes, kWarps);
  allow_shared_memory(pair_products_kernel<kWidth, T>);
  pair_products_kernel<kWidth, T>
      <<<blocks_of(in.rows, warps), dim3(kWarp, warps), warps * bytes, context.stream>>>(in, of, y,
                                                                                         y_stride);
}

template <class T>
void launch_products(const Context& context, const Vectors<T>& in, T* y, int64_t y_stride) {
  const RowMemory of(in.count, in.dim);
  if constexpr (!std::is_same_v<T, float>) {
    if (fits_tensor_cores(in)) return tensor_pair_products(context, in, y, y_stride);
  }
  if (of.floats * sizeof(float) > kMostShared) {
    long_pair_products_kernel<T>
        <<<row_blocks(in.rows * in.count), row_threads(), 0, context.stream>>>(in, y, y_stride);
  } else if (in.dim % 4 == 0) {
    launch_products<4>(context, in, of, y, y_stride);
  } else {
    launch_products<1>(context, in, of, y, y_stride);
  }
  check_launch("launching an interaction");
}

}  // namespace

void Interaction::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Vectors<T> in{has_first_ ? this->in(0).value<T>() : nullptr, x().value<T>(), pass.rows,
                        static_cast<int>(vectors_), static_cast<int>(dim_)};
    launch_products(pass.context, in, out().value<T>(), out().stride);
  });
}

}  // namespace emblem
