#include "embedding/cuda/update/deterministic_sum.h"

#include "core/device/cuda_check.h"

namespace emblem::cuda {
namespace {

constexpr int kSumThreads = 256;
static_assert(kSumBlocks <= kSumThreads);

// The sum over a block, for every thread.
__device__ double sum_of_block(double value) {
  __shared__ double sums[kSumThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int step = kSumThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  return sums[0];
}

// parts[b] = the sum of block b's share.
__global__ void __launch_bounds__(kSumThreads)
    sum_shares_kernel(const float* values, uint32_t count, double* parts) {
  const uint32_t share = (count + gridDim.x - 1) / gridDim.x;
  const uint32_t begin = min(count, blockIdx.x * share), end = min(count, begin + share);
  double sum = 0.0;
  for (uint32_t i = begin + threadIdx.x; i < end; i += kSumThreads) sum += values[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSumThreads)
    add_parts_kernel(const double* parts, double* total) {
  const double sum = sum_of_block(threadIdx.x < kSumBlocks ? parts[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) *total += sum;
}

// Integers are added in any order.
__global__ void __launch_bounds__(kSumThreads)
    add_exactly_kernel(const float* values, uint32_t count, unsigned long long* limbs) {
  __shared__ unsigned long long sums[kLimbs];
  for (int i = threadIdx.x; i < kLimbs; i += kSumThreads) sums[i] = 0;
  __syncthreads();
  for (uint32_t i = blockIdx.x * kSumThreads + threadIdx.x; i < count;
       i += gridDim.x * kSumThreads) {
    const uint32_t bits = __float_as_uint(values[i]);
    const uint32_t exponent = bits >> 23 & 0xff;
    if (exponent == 0xff) {
      atomicAdd(&sums[ExactSum::kNotFinite], 1ull);
      continue;
    }
    // value = digits * 2^(exponent - 150); those without a leading 1 have the exponent 1
    const uint32_t digits = (bits & 0x7fffffu) | (exponent != 0 ? 1u << 23 : 0u);
    if (digits == 0) continue;
    const int place = static_cast<int>(max(exponent, 1u)) - 150 + ExactSum::kUnit;
    const auto all = static_cast<unsigned long long>(digits) << place % ExactSum::kLimbBits;
    const int limb = place / ExactSum::kLimbBits;
    atomicAdd(&sums[limb], all & 0xffffffffull);
    if (all >> 32 != 0) atomicAdd(&sums[limb + 1], all >> 32);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kLimbs; i += kSumThreads)
    if (sums[i] != 0) atomicAdd(&limbs[i], sums[i]);
}

}  // namespace

void add_exactly(const Context& context, const float* values, uint32_t count, int64_t* limbs) {
  add_exactly_kernel<<<kSumBlocks, kSumThreads, 0, context.stream>>>(
      values, count, reinterpret_cast<unsigned long long*>(limbs));
  cuda_check(cudaGetLastError(), "launching add_exactly_kernel");
}

void add_in_order(const Context& context, const float* values, uint32_t count, double* sum) {
  sum_shares_kernel<<<kSumBlocks, kSumThreads, 0, context.stream>>>(values, count, sum + 1);
  add_parts_kernel<<<1, kSumThreads, 0, context.stream>>>(sum + 1, sum);
  cuda_check(cudaGetLastError(), "launching add_parts_kernel");
}

}  // namespace emblem::cuda
