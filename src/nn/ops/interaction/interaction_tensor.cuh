// nn/ops/interaction/interaction_tensor.cuh - interactions in 16 bits on tensor cores, sums in
// fp32.
//
// Blocks stay and take a row at a time, which their warps share; the vectors of the next are on
// their way to shared memory.
#pragma once

#include <cuda_pipeline.h>

#include "core/math/half_pair.cuh"
#include "nn/ops/interaction/interaction.cuh"
#include "nn/ops/mma.cuh"

namespace emblem::cuda {

constexpr int kMostTensorVectors = 32;
constexpr int kMostTensorPairs = kMostTensorVectors * (kMostTensorVectors - 1) / 2;
constexpr int kMostTensorDim = 512;
constexpr int kPacketed = 8;    // elements of 16 bytes
constexpr int kRowPadding = 8;  // elements: rows that are read at once are in different banks

template <class T>
bool fits_tensor_cores(const Vectors<T>& in) {
  return in.count <= kMostTensorVectors && in.dim % 16 == 0 && in.dim <= kMostTensorDim;
}

void tensor_pair_products(const Context& context, const Vectors<Bf16>& in, Bf16* y,
                          int64_t y_stride);
void tensor_pair_products(const Context& context, const Vectors<F16>& in, F16* y, int64_t y_stride);
void tensor_pair_gradients(const Context& context, const Vectors<Bf16>& in, const Bf16* dy,
                           int64_t y_stride, const Targets<Bf16>& targets);
void tensor_pair_gradients(const Context& context, const Vectors<F16>& in, const F16* dy,
                           int64_t y_stride, const Targets<F16>& targets);

struct Tile {  // 16 x 16 elements, spread over the registers of a warp
  uint32_t at[4];
};

// sums [16, 8] += left [16, 16] right [16, 8].
template <class T>
__device__ void multiply_add(float (&sums)[4], const Tile& left, uint32_t right0, uint32_t right1) {
  multiply_tile<T>(sums, left.at[0], left.at[1], left.at[2], left.at[3], right0, right1);
}

// Four 8 x 8 tiles, whose rows the lanes point at, as they are or turned.
__device__ inline Tile load_tile(const void* row) {
  Tile tile;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(tile.at[0]), "=r"(tile.at[1]), "=r"(tile.at[2]), "=r"(tile.at[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
  return tile;
}
__device__ inline Tile load_turned_tile(const void* row) {
  Tile tile;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(tile.at[0]), "=r"(tile.at[1]), "=r"(tile.at[2]), "=r"(tile.at[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
  return tile;
}

// kDim where it is known when compiling, else the vectors'.
template <int kDim, class T>
__device__ int dim_of(const Vectors<T>& in) {
  return kDim != 0 ? kDim : in.dim;
}

// Elements of the vectors of a row in shared memory.
template <class T>
__host__ __device__ int staged_elements(const Vectors<T>& in) {
  return in.count * (in.dim + kRowPadding);
}

// Has the vectors of a row come, dim + kRowPadding elements apart.
template <int kDim, class T>
__device__ void stage_vectors(const Vectors<T>& in, int64_t r, T* to) {
  const int dim = dim_of<kDim>(in), packets = dim / kPacketed;
#pragma unroll 4
  for (int i = threadIdx.x; i < in.count * packets; i += blockDim.x) {
    const int v = i / packets, d = i % packets * kPacketed;
    __pipeline_memcpy_async(to + v * (dim + kRowPadding) + d, in.at(r, v) + d, 16);
  }
}

// Blocks of a launch over all rows: as many as the GPU holds at once.
template <class Kernel>
unsigned blocks_to_stay(Kernel* kernel, int64_t rows, int threads, size_t bytes) {
  allow_shared_memory(kernel);
  int device = 0, multiprocessors = 1, resident = 1;
  cuda_check(cudaGetDevice(&device), "asking for the device");
  cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
             "asking for the number of multiprocessors");
  cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, bytes),
             "asking for the occupancy");
  return static_cast<unsigned>(
      std::min<int64_t>(rows, static_cast<int64_t>(std::max(1, resident)) * multiprocessors));
}

}  // namespace emblem::cuda
