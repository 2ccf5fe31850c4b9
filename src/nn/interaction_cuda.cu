#include <cuda_pipeline.h>

#include "nn/interaction.cuh"

namespace emblem {
namespace {

using namespace cuda;

constexpr int kTile = 4;  // products are made for 4 x 4 vectors at a time

// Memory of a warp: its row's vectors, `stride` floats apart, then its products.
struct RowMemory {
  int stride, tiles_across, products, floats;

  RowMemory(int vectors, int dim)
      // Four floats of padding: tiles that are read at once then lie in different banks.
      : stride(static_cast<int>(round_up(dim, 4)) + 4),
        tiles_across((vectors + kTile - 1) / kTile),
        products(tiles_across * kTile * stride),
        floats(products + static_cast<int>(round_up(vectors * (vectors - 1) / 2, 4))) {}
};

// A tile is of vectors that are tiles_across apart, so that neighbouring tiles are neighbours in
// memory too: vectors row + a * tiles_across and col + b * tiles_across.
template <int kWidth>
__device__ void make_tile(int count, int dim, const RowMemory& of, const float* vectors, int row,
                          int col, float* products) {
  float sums[kTile][kTile] = {};
  for (int d = 0; d < dim; d += kWidth) {
    Floats<kWidth> left[kTile], right[kTile];
#pragma unroll
    for (int a = 0; a < kTile; ++a) {
      left[a] = load<kWidth>(vectors + (row + a * of.tiles_across) * of.stride + d);
      right[a] = load<kWidth>(vectors + (col + a * of.tiles_across) * of.stride + d);
    }
#pragma unroll
    for (int a = 0; a < kTile; ++a) {
#pragma unroll
      for (int b = 0; b < kTile; ++b) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sums[a][b] += left[a].at[k] * right[b].at[k];
      }
    }
  }
#pragma unroll
  for (int a = 0; a < kTile; ++a) {
#pragma unroll
    for (int b = 0; b < kTile; ++b) {
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

// A warp for each row, a lane for each tile.
template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    pair_products_kernel(Vectors<T> in, RowMemory of, T* y, int64_t y_cols) {
  extern __shared__ float4 shared[];
  const int64_t r = row_of_warp();
  if (r >= in.rows) return;
  const int lane = threadIdx.x;
  float* vectors = reinterpret_cast<float*>(shared) + threadIdx.y * of.floats;
  float* products = vectors + of.products;
  gather_row<kWidth>(in, r, of.stride, vectors);
  const int tiles = of.tiles_across * (of.tiles_across + 1) / 2;
  for (int tile = lane; tile < tiles; tile += kWarp) {
    int row = 0, col = tile;  // of the lower triangle, whose row i has i + 1 tiles
    while (col > row) col -= ++row;
    make_tile<kWidth>(in.count, in.dim, of, vectors, row, col, products);
  }
  __syncwarp();
  y += r * y_cols;
  if (in.first != nullptr) {
    for (int d = lane; d < in.dim; d += kWarp) y[d] = narrow<T>(vectors[d]);
    y += in.dim;
  }
  for (int pair = lane; pair < first_pair_of(in.count); pair += kWarp)
    y[pair] = narrow<T>(products[pair]);
}

// For rows that do not fit into shared memory: a warp for each vector of each row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    long_pair_products_kernel(Vectors<T> in, T* y, int64_t y_cols) {
  const int64_t item = row_of_warp();
  if (item >= in.rows * in.count) return;
  const int64_t r = item / in.count;
  const int i = static_cast<int>(item % in.count);
  const T* left = in.at(r, i);
  y += r * y_cols;
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
}

// ---- forward on tensor cores: 16-bit elements, sums in fp32 ----

constexpr int kMostTensorVectors = 32;
constexpr int kMostTensorPairs = kMostTensorVectors * (kMostTensorVectors - 1) / 2;

// sums [16, 8] += left [16, 16] right [16, 8], spread over the registers of a warp.
template <class T>
__device__ void multiply_add(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                             uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// A warp for each row. A lane holds 8 consecutive elements of vectors lane / 4, + 8, + 16 and + 24.
// They are used as they lie: which element of the inner dimension a register stands for is the same
// on both sides of a product, so that the order does not matter; and the registers of the left
// matrix are those of the right one too.
template <class T>
__global__ void __launch_bounds__(kThreads)
    tensor_pair_products_kernel(Vectors<T> in, T* y, int64_t y_cols) {
  __shared__ T shared[kWarps][kMostTensorPairs];
  const int64_t r = row_of_warp();
  if (r >= in.rows) return;
  const int lane = threadIdx.x, vector = lane / 4, part = lane % 4;
  float sums[2][4][4] = {};  // of rows from 0 and 16, columns from 0, 8, 16 and 24
#pragma unroll 4
  for (int d = part * 8; d < in.dim; d += 32) {
    uint4 values[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const int v = vector + 8 * g;
      values[g] =
          v < in.count ? *reinterpret_cast<const uint4*>(in.at(r, v) + d) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      if (in.count <= 16 * m) continue;
      const uint4 &top = values[2 * m], &bottom = values[2 * m + 1];
#pragma unroll
      for (int t = 0; t <= 2 * m + 1; ++t) {
        multiply_add<T>(sums[m][t], top.x, bottom.x, top.y, bottom.y, values[t].x, values[t].y);
        multiply_add<T>(sums[m][t], top.z, bottom.z, top.w, bottom.w, values[t].z, values[t].w);
      }
    }
  }
  T* products = shared[threadIdx.y];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int t = 0; t <= 2 * m + 1; ++t) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int i = 16 * m + vector + k / 2 * 8, j = 8 * t + 2 * part + k % 2;
        if (j < i && i < in.count) products[first_pair_of(i) + j] = narrow<T>(sums[m][t][k]);
      }
    }
  }
  __syncwarp();
  y += r * y_cols;
  if (in.first != nullptr) {
    for (int d = lane; d < in.dim; d += kWarp) y[d] = in.first[r * in.dim + d];
    y += in.dim;
  }
  for (int pair = lane; pair < first_pair_of(in.count); pair += kWarp) y[pair] = products[pair];
}

template <int kWidth, class T>
void launch_products(const Context& context, const Vectors<T>& in, const RowMemory& of, T* y,
                     int64_t y_cols) {
  const size_t bytes = of.floats * sizeof(float);
  const unsigned warps = warps_of(bytes, kWarps);
  allow_shared(pair_products_kernel<kWidth, T>, warps * bytes);
  pair_products_kernel<kWidth, T>
      <<<blocks_of(in.rows, warps), dim3(kWarp, warps), warps * bytes, context.stream>>>(in, of, y,
                                                                                         y_cols);
}

template <class T>
void launch_products(const Context& context, const Vectors<T>& in, T* y, int64_t y_cols) {
  const RowMemory of(in.count, in.dim);
  if constexpr (!std::is_same_v<T, float>) {
    if (in.count <= kMostTensorVectors && in.dim % 32 == 0) {
      tensor_pair_products_kernel<T>
          <<<row_blocks(in.rows), row_threads(), 0, context.stream>>>(in, y, y_cols);
      check_launch("launching an interaction");
      return;
    }
  }
  if (of.floats * sizeof(float) > kMostShared) {
    long_pair_products_kernel<T>
        <<<row_blocks(in.rows * in.count), row_threads(), 0, context.stream>>>(in, y, y_cols);
  } else if (in.dim % 4 == 0) {
    launch_products<4>(context, in, of, y, y_cols);
  } else {
    launch_products<1>(context, in, of, y, y_cols);
  }
  check_launch("launching an interaction");
}

}  // namespace

void Interaction::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Vectors<T> in{has_first_ ? this->in(0).value<T>() : nullptr, x().value<T>(), pass.rows,
                        static_cast<int>(vectors_), static_cast<int>(dim_)};
    launch_products(pass.context, in, out().value<T>(), out().cols);
  });
}

}  // namespace emblem
