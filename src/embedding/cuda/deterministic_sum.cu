#include "embedding/cuda/deterministic_sum.h"

#include "core/cuda_check.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
static_assert(kSumBlocks <= kThreads);

// The sum over a block, for every thread.
__device__ double sum_of_block(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  return sums[0];
}

// parts[b] = the sum of block b's share.
__global__ void __launch_bounds__(kThreads)
    sum_shares_kernel(const float* values, uint32_t count, double* parts) {
  const uint32_t share = (count + gridDim.x - 1) / gridDim.x;
  const uint32_t begin = min(count, blockIdx.x * share), end = min(count, begin + share);
  double sum = 0.0;
  for (uint32_t i = begin + threadIdx.x; i < end; i += kThreads) sum += values[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_parts_kernel(const double* parts, double* total) {
  const double sum = sum_of_block(threadIdx.x < kSumBlocks ? parts[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace

void add_in_order(const Context& context, const float* values, uint32_t count, double* sum) {
  sum_shares_kernel<<<kSumBlocks, kThreads, 0, context.stream>>>(values, count, sum + 1);
  add_parts_kernel<<<1, kThreads, 0, context.stream>>>(sum + 1, sum);
  cuda_check(cudaGetLastError(), "launching add_parts_kernel");
}

}  // namespace emblem::cuda
