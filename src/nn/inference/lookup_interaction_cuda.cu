#include "core/device/launch_early.cuh"
#include "nn/inference/lookup_interaction.h"
#include "nn/ops/interaction/interaction.cuh"
#include "nn/ops/mma.cuh"

namespace emblem::cuda {
namespace {

constexpr int kMostVectors = 32;
constexpr int kMostPairs = kMostVectors * (kMostVectors - 1) / 2;
constexpr int kWarpsOfRows = 4;  // in a block

// A warp for each row. A lane holds 8 consecutive elements of vectors lane / 4, + 8, + 16 and + 24;
// the registers of the left matrix of a product are those of the right one too. All rows of
// embeddings that a warp needs for kDim elements are on their way at once.
template <class T, int kDim>
__global__ void __launch_bounds__(kWarp* kWarpsOfRows)
    lookup_interaction_kernel(LookupInteraction of) {
  __shared__ alignas(16) T shared[kWarpsOfRows][kMostPairs + 16];
  let_the_next_kernel_start();
  wait_for_the_kernel_before();
  const int64_t r = row_of_warp();
  if (r >= of.rows) return;
  const int lane = threadIdx.x, vector = lane / 4, part = lane % 4;
  const int has_first = of.first != nullptr ? 1 : 0;
  const int count = static_cast<int>(of.lookups) + has_first;
  const int dim = kDim != 0 ? kDim : static_cast<int>(of.dim);
  const T* at[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    const int v = vector + 8 * g;
    at[g] = v >= count      ? nullptr
            : v < has_first ? static_cast<const T*>(of.first) + r * dim
                            : static_cast<const T*>(of.addresses[r * of.lookups + v - has_first]);
  }
  float sums[2][4][4] = {};  // sums of rows from 0 and 16, columns from 0, 8, 16 and 24
  uint4 first_part[kDim != 0 ? kDim / 32 : 1];  // what lanes of vector 0 hold of it
#pragma unroll
  for (int d = 0; d < dim; d += 32) {
    uint4 values[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      values[g] = at[g] != nullptr ? *reinterpret_cast<const uint4*>(at[g] + d + part * 8)
                                   : make_uint4(0, 0, 0, 0);
    }
    if (kDim != 0) first_part[kDim != 0 ? d / 32 : 0] = values[0];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      if (count <= 16 * m) continue;
#pragma unroll
      for (int t = 0; t <= 2 * m + 1; ++t)
        multiply_wide<T>(sums[m][t], values[2 * m], values[2 * m + 1], values[t]);
    }
  }
  T* products = shared[threadIdx.y];
  const int pairs = first_pair_of(count);
  const int tail = static_cast<int>(of.pitch) - has_first * dim;  // pairs and zeros
  for (int i = pairs + lane; i < tail; i += kWarp) products[i] = T{0};
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int t = 0; t <= 2 * m + 1; ++t) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int i = 16 * m + vector + k / 2 * 8, j = 8 * t + 2 * part + k % 2;
        if (j < i && i < count) products[first_pair_of(i) + j] = narrow<T>(sums[m][t][k]);
      }
    }
  }
  __syncwarp();
  T* y = static_cast<T*>(of.out) + r * of.pitch;
  if (has_first != 0) {
    if constexpr (kDim != 0) {
      if (vector == 0) {
#pragma unroll
        for (int d = 0; d < kDim; d += 32)
          *reinterpret_cast<uint4*>(y + d + part * 8) = first_part[d / 32];
      }
    } else {
      for (int d = lane * 8; d < dim; d += kWarp * 8)
        *reinterpret_cast<uint4*>(y + d) =
            *reinterpret_cast<const uint4*>(static_cast<const T*>(of.first) + r * dim + d);
    }
    y += dim;
  }
  for (int i = lane * 8; i < tail; i += kWarp * 8)
    *reinterpret_cast<uint4*>(y + i) = *reinterpret_cast<const uint4*>(products + i);
}

template <class T, int kDim>
void launch(const Context& context, const LookupInteraction& of) {
  auto* kernel = lookup_interaction_kernel<T, kDim>;
  const dim3 blocks(blocks_of(of.rows, kWarpsOfRows)), threads(kWarp, kWarpsOfRows);
  if (of.early) return launch_early(context, kernel, blocks, threads, 0, of);
  kernel<<<blocks, threads, 0, context.stream>>>(of);
  check_launch("launching an interaction of rows");
}

// A warp a vector, in words that it consists of.
template <class Word>
__global__ void __launch_bounds__(kThreads) gather_vectors_kernel(GatherVectors of) {
  constexpr int kBytes = sizeof(Word);
  const int64_t item = row_of_warp();
  if (item >= of.rows * of.lookups) return;
  const auto* from = static_cast<const Word*>(of.addresses[item]);
  auto* to = reinterpret_cast<Word*>(of.out + item * of.bytes);
  for (int64_t i = threadIdx.x; i < of.bytes / kBytes; i += kWarp) to[i] = from[i];
}

}  // namespace

bool can_interact(DType dtype, int64_t vectors, int64_t dim) {
  return dtype != DType::kF32 && vectors >= 2 && vectors <= kMostVectors && dim % 32 == 0;
}

void interact(const Context& context, const LookupInteraction& of) {
  if (of.rows == 0) return;
  const auto with = [&](auto type) {
    using T = decltype(type);
    if (of.dim == 128) return launch<T, 128>(context, of);
    if (of.dim == 64) return launch<T, 64>(context, of);
    launch<T, 0>(context, of);
  };
  if (of.dtype == DType::kBf16) return with(Bf16{});
  with(F16{});
}

void gather_vectors(const Context& context, const GatherVectors& of) {
  if (of.rows == 0) return;
  auto* kernel = of.bytes % 16 == 0  ? gather_vectors_kernel<uint4>
                 : of.bytes % 4 == 0 ? gather_vectors_kernel<uint32_t>
                                     : gather_vectors_kernel<uint16_t>;
  kernel<<<row_blocks(of.rows * of.lookups), row_threads(), 0, context.stream>>>(of);
  check_launch("launching a gather");
}

}  // namespace emblem::cuda
