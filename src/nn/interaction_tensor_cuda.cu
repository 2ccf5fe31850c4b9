#include "nn/interaction_tensor.cuh"

namespace emblem::cuda {
namespace {

constexpr int kThreadsOfRow = 64;  // two warps

// The products of the staged vectors. Of the 32 x 32 products of two tiles of 16 vectors, those
// below the diagonal are made, in blocks of 16 x 8: two of the first tile's rows, four of the
// second's, three by each of the two warps. The registers of a tile of rows are those of its
// columns too.
template <int kDim, class T>
__device__ void multiply_pairs(const Vectors<T>& in, const T* vectors, T* products) {
  const int dim = dim_of<kDim>(in), lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  // What lies behind the last vector does not matter: only pairs of vectors are kept.
  const T* rows[2];
#pragma unroll
  for (int m = 0; m < 2; ++m)
    rows[m] = vectors + min(16 * m + lane % 16, in.count - 1) * (dim + kRowPadding) + lane / 16 * 8;
  // Of rows from 16 m, columns from 8 t: m, t = (0, warp), (1, 2 warp), (1, 2 warp + 1).
  float sums[3][4] = {};
#pragma unroll 4
  for (int d = 0; d < dim; d += 16) {
    const Tile top = load_tile(rows[0] + d), bottom = load_tile(rows[1] + d);
    const Tile& columns = warp == 0 ? top : bottom;
    multiply_add<T>(sums[0], top, warp == 0 ? top.at[0] : top.at[1],
                    warp == 0 ? top.at[2] : top.at[3]);
    multiply_add<T>(sums[1], bottom, columns.at[0], columns.at[2]);
    multiply_add<T>(sums[2], bottom, columns.at[1], columns.at[3]);
  }
#pragma unroll
  for (int b = 0; b < 3; ++b) {
    const int m = b == 0 ? 0 : 1, t = b == 0 ? warp : 2 * warp + b - 1;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = 16 * m + lane / 4 + k / 2 * 8, j = 8 * t + 2 * (lane % 4) + k % 2;
      if (j < i && i < in.count) products[first_pair_of(i) + j] = narrow<T>(sums[b][k]);
    }
  }
}

template <int kDim, class T>
__global__ void __launch_bounds__(kThreadsOfRow)
    tensor_pair_products_kernel(Vectors<T> in, T* y, int64_t y_stride) {
  extern __shared__ float4 shared[];
  T* staged[2] = {reinterpret_cast<T*>(shared), reinterpret_cast<T*>(shared) + staged_elements(in)};
  T* line = staged[1] + staged_elements(in);  // of the output
  const int thread = threadIdx.x, dim = dim_of<kDim>(in);
  const int before = in.first == nullptr ? 0 : dim, end = before + first_pair_of(in.count);
  for (int i = end + thread; i < y_stride; i += kThreadsOfRow) line[i] = narrow<T>(0.0f);
  int64_t r = blockIdx.x;
  stage_vectors<kDim>(in, r, staged[0]);
  __pipeline_commit();
  for (int current = 0; r < in.rows; r += gridDim.x, current ^= 1) {
    if (r + gridDim.x < in.rows) stage_vectors<kDim>(in, r + gridDim.x, staged[current ^ 1]);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const T* vectors = staged[current];
    multiply_pairs<kDim>(in, vectors, line + before);
    for (int d = thread * kPacketed; d < before; d += kThreadsOfRow * kPacketed)
      *reinterpret_cast<uint4*>(line + d) = *reinterpret_cast<const uint4*>(vectors + d);
    __syncthreads();
    T* to = y + r * y_stride;
    if (y_stride % kPacketed == 0) {
      for (int i = thread * kPacketed; i < y_stride; i += kThreadsOfRow * kPacketed)
        *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(line + i);
    } else {
      for (int i = thread; i < y_stride; i += kThreadsOfRow) to[i] = line[i];
    }
  }
}

template <int kDim, class T>
void launch(const Context& context, const Vectors<T>& in, T* y, int64_t y_stride) {
  const size_t bytes = (2 * staged_elements(in) + round_up(y_stride, kPacketed)) * sizeof(T);
  auto* kernel = tensor_pair_products_kernel<kDim, T>;
  kernel<<<blocks_to_stay(kernel, in.rows, kThreadsOfRow, bytes), kThreadsOfRow, bytes,
           context.stream>>>(in, y, y_stride);
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
