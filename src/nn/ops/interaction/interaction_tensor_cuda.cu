#include "nn/ops/interaction/interaction_tensor.cuh"

namespace emblem::cuda {
namespace {

// The products of the staged vectors, after `before` elements of the output's row. Of the 32 x 32
// products of two tiles of 16 vectors, those below the diagonal are made: for 16 rows of the first
// tile with its own 16 columns, of the second with all 32. The registers of a tile of rows are
// those of its columns too.
template <int kDim, class T>
__device__ void multiply_pairs(const Vectors<T>& in, const T* vectors, T* products) {
  const int dim = dim_of<kDim>(in), lane = threadIdx.x;
  const bool second = in.count > 16;
  // The content after the last vector does not matter: only pairs of vectors are kept.
  const T* rows[2];
#pragma unroll
  for (int m = 0; m < 2; ++m)
    rows[m] = vectors + min(16 * m + lane % 16, in.count - 1) * (dim + kRowPadding) + lane / 16 * 8;
  float sums[2][4][4] = {};  // sums of rows from 0 and 16, columns from 0, 8, 16 and 24
#pragma unroll 4
  for (int d = 0; d < dim; d += 16) {
    const Tile top = load_tile(rows[0] + d);
    multiply_add<T>(sums[0][0], top, top.at[0], top.at[2]);
    multiply_add<T>(sums[0][1], top, top.at[1], top.at[3]);
    if (!second) continue;
    const Tile bottom = load_tile(rows[1] + d);
    multiply_add<T>(sums[1][0], bottom, top.at[0], top.at[2]);
    multiply_add<T>(sums[1][1], bottom, top.at[1], top.at[3]);
    multiply_add<T>(sums[1][2], bottom, bottom.at[0], bottom.at[2]);
    multiply_add<T>(sums[1][3], bottom, bottom.at[1], bottom.at[3]);
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int t = 0; t <= 2 * m + 1; ++t) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int i = 16 * m + lane / 4 + k / 2 * 8, j = 8 * t + 2 * (lane % 4) + k % 2;
        if (j < i && i < in.count) products[first_pair_of(i) + j] = narrow<T>(sums[m][t][k]);
      }
    }
  }
}

template <int kDim, class T>
__global__ void __launch_bounds__(kWarp)
    tensor_pair_products_kernel(Vectors<T> in, T* y, int64_t y_stride) {
  extern __shared__ float4 shared[];
  T* staged[2] = {reinterpret_cast<T*>(shared), reinterpret_cast<T*>(shared) + staged_elements(in)};
  T* line = staged[1] + staged_elements(in);  // line of the output
  const int lane = threadIdx.x, dim = dim_of<kDim>(in);
  const int before = in.first == nullptr ? 0 : dim, end = before + first_pair_of(in.count);
  for (int i = end + lane; i < y_stride; i += kWarp) line[i] = narrow<T>(0.0f);
  int64_t r = blockIdx.x;
  stage_vectors<kDim>(in, r, staged[0]);
  __pipeline_commit();
  for (int current = 0; r < in.rows; r += gridDim.x, current ^= 1) {
    if (r + gridDim.x < in.rows) stage_vectors<kDim>(in, r + gridDim.x, staged[current ^ 1]);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncwarp();
    const T* vectors = staged[current];
    multiply_pairs<kDim>(in, vectors, line + before);
    for (int d = lane * kPacketed; d < before; d += kWarp * kPacketed)
      *reinterpret_cast<uint4*>(line + d) = *reinterpret_cast<const uint4*>(vectors + d);
    __syncwarp();
    T* to = y + r * y_stride;
    if (y_stride % kPacketed == 0) {
      for (int i = lane * kPacketed; i < y_stride; i += kWarp * kPacketed)
        *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(line + i);
    } else {
      for (int i = lane; i < y_stride; i += kWarp) to[i] = line[i];
    }
    __syncwarp();
  }
}

template <int kDim, class T>
void launch(const Context& context, const Vectors<T>& in, T* y, int64_t y_stride) {
  const size_t bytes = (2 * staged_elements(in) + round_up(y_stride, kPacketed)) * sizeof(T);
  auto* kernel = tensor_pair_products_kernel<kDim, T>;
  kernel<<<blocks_to_stay(kernel, in.rows, kWarp, bytes), kWarp, bytes, context.stream>>>(in, y,
                                                                                          y_stride);
  check_launch("launching an interaction");
}

template <class T>
void launch(const Context& context, const Vectors<T>& in, T* y, int64_t y_stride) {
  if (in.dim == 128)
    launch<128>(context, in, y, y_stride);
  else
    launch<0>(context, in, y, y_stride);
}

}  // namespace

void tensor_pair_products(const Context& context, const Vectors<Bf16>& in, Bf16* y,
                          int64_t y_stride) {
  launch(context, in, y, y_stride);
}
void tensor_pair_products(const Context& context, const Vectors<F16>& in, F16* y,
                          int64_t y_stride) {
  launch(context, in, y, y_stride);
}

}  // namespace emblem::cuda
