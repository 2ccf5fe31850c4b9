#include "shard/cuda/sum_parts.h"

#include <algorithm>

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"

namespace emblem::cuda {
namespace {

constexpr int kSumThreads = 256;
constexpr int kMostLevels = 32;

struct __align__(16) Four {
  float at[4];

  __device__ Four operator+(const Four& other) const {
    return {at[0] + other.at[0], at[1] + other.at[1], at[2] + other.at[2], at[3] + other.at[3]};
  }
};

// Sums of whole subtrees wait at their level until their neighbour is complete, as the digits of a
// binary counter do. `value` of a part. With kCount, loops are unrolled for that many.
template <int kCount, class Value>
__device__ auto sum_of(int64_t parts, const Value& value) {
  const int64_t count = kCount > 0 ? kCount : parts;
  decltype(value(0)) waiting[kMostLevels], total{};
#pragma unroll
  for (int64_t part = 0; part < count; ++part) {
    auto sum = value(part);
    int level = 0;
    for (; part >> level & 1; ++level) sum = waiting[level] + sum;
    waiting[level] = sum;
  }
  bool any = false;
#pragma unroll
  for (int level = 0; count >> level != 0; ++level) {
    if ((count >> level & 1) == 0) continue;
    total = any ? waiting[level] + total : waiting[level];
    any = true;
  }
  return total;
}

__global__ void __launch_bounds__(kSumThreads)
    sum_parts_kernel(const float* parts, int64_t count, int64_t stride, int64_t values, float* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  if (i < values) to[i] = sum_of<0>(count, [&](int64_t part) { return parts[part * stride + i]; });
}

struct PeerParts {
  float* at[kMostPeerParts];
};
template <int kCount, class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_peer_parts_kernel(const __grid_constant__ PeerParts parts, int parts_count,
                          int64_t values) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  if (i >= values) return;
  const auto part_at = [&](int64_t part) -> T& { return reinterpret_cast<T*>(parts.at[part])[i]; };
  const T sum = sum_of<kCount>(parts_count, [&](int64_t part) { return T{part_at(part)}; });
  const int count = kCount > 0 ? kCount : parts_count;
#pragma unroll
  for (int part = 0; part < count; ++part) part_at(part) = sum;
}

}  // namespace

void sum_parts(const Context& context, const float* parts, int64_t count, int64_t stride,
               int64_t values, float* to) {
  if (values == 0) return;
  sum_parts_kernel<<<blocks_of(values, kSumThreads), kSumThreads, 0, context.stream>>>(
      parts, count, stride, values, to);
  cuda_check(cudaGetLastError(), "launching sum_parts_kernel");
}

void sum_peer_parts(const Context& context, std::span<float* const> parts, int64_t values) {
  if (values == 0) return;
  PeerParts peers{};
  std::copy(parts.begin(), parts.end(), peers.at);
  const bool in_fours =
      values % 4 == 0 && std::all_of(parts.begin(), parts.end(), [](const float* part) {
        return reinterpret_cast<uintptr_t>(part) % sizeof(Four) == 0;
      });
  const auto launch = [&](auto* kernel, int64_t elements) {
    kernel<<<blocks_of(elements, kSumThreads), kSumThreads, 0, context.stream>>>(
        peers, static_cast<int>(parts.size()), elements);
  };
  if (!in_fours)
    launch(sum_peer_parts_kernel<0, float>, values);
  else if (parts.size() == 2)
    launch(sum_peer_parts_kernel<2, Four>, values / 4);
  else if (parts.size() == 4)
    launch(sum_peer_parts_kernel<4, Four>, values / 4);
  else
    launch(sum_peer_parts_kernel<0, Four>, values / 4);
  cuda_check(cudaGetLastError(), "launching sum_peer_parts_kernel");
}

}  // namespace emblem::cuda
