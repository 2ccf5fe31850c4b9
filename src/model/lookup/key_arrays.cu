#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "model/lookup/key_arrays.h"
#include "model/model_batch.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;

__device__ int64_t index_in_grid() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

__global__ void __launch_bounds__(kThreads)
    shift_offsets_kernel(const int32_t* offsets, int64_t bags, int32_t shift, int32_t* to) {
  const int64_t bag = index_in_grid();
  if (bag < bags) to[bag] = shift + (offsets ? offsets[bag] : static_cast<int32_t>(bag));
}

__global__ void __launch_bounds__(kThreads) fill_kernel(float value, int64_t count, float* to) {
  const int64_t i = index_in_grid();
  if (i < count) to[i] = value;
}

__global__ void __launch_bounds__(kThreads)
    first_keys_kernel(const int64_t* keys, const int32_t* offsets, int64_t bags, int64_t missing,
                      int64_t* to) {
  const int64_t bag = index_in_grid();
  if (bag >= bags) return;
  if (offsets == nullptr)
    to[bag] = keys[bag];
  else
    to[bag] = offsets[bag] < offsets[bag + 1] ? keys[offsets[bag]] : missing;
}

__global__ void __launch_bounds__(kThreads)
    add_flags_kernel(const uint8_t* flags, int64_t count, unsigned long long* counts) {
  const int64_t i = index_in_grid();
  const int set = __syncthreads_count(i < count && flags[i] == 1);
  if (i == 0) atomicAdd(&counts[0], static_cast<unsigned long long>(count));
  if (threadIdx.x == 0 && set > 0) atomicAdd(&counts[1], static_cast<unsigned long long>(set));
}

// Null where each bag has one key.
const int32_t* offsets_of(const FeatureKeys& keys) {
  return keys.offsets.size() > 0 ? keys.offsets.data : nullptr;
}

}  // namespace

void shift_offsets(const Context& context, const FeatureKeys& keys, int32_t shift, int32_t* to) {
  const int64_t bags = bags_of(keys);
  if (bags == 0) return;
  shift_offsets_kernel<<<blocks_of(bags, kThreads), kThreads, 0, context.stream>>>(offsets_of(keys),
                                                                                   bags, shift, to);
  cuda_check(cudaGetLastError(), "launching shift_offsets_kernel");
}

void fill(const Context& context, float value, int64_t count, float* to) {
  if (count == 0) return;
  fill_kernel<<<blocks_of(count, kThreads), kThreads, 0, context.stream>>>(value, count, to);
  cuda_check(cudaGetLastError(), "launching fill_kernel");
}

void first_keys(const Context& context, const FeatureKeys& keys, int64_t missing, int64_t* to) {
  const int64_t bags = bags_of(keys);
  if (bags == 0) return;
  first_keys_kernel<<<blocks_of(bags, kThreads), kThreads, 0, context.stream>>>(
      keys.keys.data, offsets_of(keys), bags, missing, to);
  cuda_check(cudaGetLastError(), "launching first_keys_kernel");
}

void add_flags(const Context& context, View<const uint8_t> flags, int64_t* counts) {
  const int64_t count = flags.size();
  if (count == 0) return;
  add_flags_kernel<<<blocks_of(count, kThreads), kThreads, 0, context.stream>>>(
      flags.data, count, reinterpret_cast<unsigned long long*>(counts));
  cuda_check(cudaGetLastError(), "launching add_flags_kernel");
}

}  // namespace emblem::cuda
