#include "shard/cuda/sum_parts.h"

#include <algorithm>

#include "core/cuda_check.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostLevels = 32;

// Sums of whole subtrees wait at their level until their neighbour is complete, as the digits of a
// binary counter do.
__global__ void __launch_bounds__(kThreads)
    sum_parts_kernel(const float* parts, int64_t count, int64_t stride, int64_t values, float* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= values) return;
  float waiting[kMostLevels];
  for (int64_t part = 0; part < count; ++part) {
    float sum = parts[part * stride + i];
    int level = 0;
    for (; part >> level & 1; ++level) sum = waiting[level] + sum;
    waiting[level] = sum;
  }
  float total = 0.0f;
  bool any = false;
  for (int level = 0; count >> level != 0; ++level) {
    if ((count >> level & 1) == 0) continue;
    total = any ? waiting[level] + total : waiting[level];
    any = true;
  }
  to[i] = total;
}

}  // namespace

void sum_parts(const Context& context, const float* parts, int64_t count, int64_t stride,
               int64_t values, float* to) {
  if (values == 0) return;
  sum_parts_kernel<<<static_cast<unsigned>((values + kThreads - 1) / kThreads), kThreads, 0,
                     context.stream>>>(parts, count, stride, values, to);
  cuda_check(cudaGetLastError(), "launching sum_parts_kernel");
}

}  // namespace emblem::cuda
