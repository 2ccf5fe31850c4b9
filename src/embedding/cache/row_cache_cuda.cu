#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "embedding/cache/row_cache.cuh"
#include "embedding/cache/row_cache.h"

namespace emblem::cuda {
namespace {

constexpr int kQueryThreads = 256;
constexpr int kQueryWarps = kQueryThreads / 32;

__global__ void __launch_bounds__(kQueryThreads)
    find_kernel(RowCacheRef cache, uint32_t table, const int64_t* keys, int64_t count,
                uint32_t* slots) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kQueryThreads + threadIdx.x;
  if (i < count) slots[i] = find_slot(cache, table, keys[i], *cache.tick);
}
__global__ void tick_kernel(RowCacheRef cache) { atomicAdd(cache.tick, 1ull); }

__global__ void __launch_bounds__(kQueryThreads)
    copy_kernel(RowCacheRef cache, const uint32_t* slots, int64_t count, char* rows) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kQueryWarps + threadIdx.x / 32;
  if (i >= count || slots[i] == kNoSlot32) return;
  copy_row(rows + i * cache.row_bytes, cache.row(slots[i]), cache.row_bytes);
}

__global__ void __launch_bounds__(kQueryThreads)
    insert_kernel(RowCacheRef cache, ReadEpochs epochs, uint32_t table, const int64_t* keys,
                  int64_t count, const char* rows, RowCache::Existing existing) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kQueryWarps + threadIdx.x / 32;
  if (i >= count) return;
  insert_row(cache, {existing, Insertion::Busy::kWait, *cache.tick, epochs}, table, keys[i],
             rows + i * cache.row_bytes);
}

}  // namespace

void find_cached(const Context& context, const RowCacheRef& cache, int table,
                 View<const int64_t> keys, uint32_t* slots) {
  if (keys.size() == 0) return;
  find_kernel<<<blocks_of(keys.size(), kQueryThreads), kQueryThreads, 0, context.stream>>>(
      cache, static_cast<uint32_t>(table), keys.data, keys.size(), slots);
  cuda_check(cudaGetLastError(), "launching find_kernel");
  tick_kernel<<<1, 1, 0, context.stream>>>(cache);
  cuda_check(cudaGetLastError(), "launching tick_kernel");
}

void copy_cached(const Context& context, const RowCacheRef& cache, const uint32_t* slots,
                 int64_t count, char* rows) {
  if (count == 0) return;
  copy_kernel<<<blocks_of(count, kQueryWarps), kQueryThreads, 0, context.stream>>>(cache, slots,
                                                                                   count, rows);
  cuda_check(cudaGetLastError(), "launching copy_kernel");
}

void insert_cached(const Context& context, const RowCacheRef& cache, const ReadEpochs& epochs,
                   int table, View<const int64_t> keys, const char* rows,
                   RowCache::Existing existing) {
  if (keys.size() == 0) return;
  insert_kernel<<<blocks_of(keys.size(), kQueryWarps), kQueryThreads, 0, context.stream>>>(
      cache, epochs, static_cast<uint32_t>(table), keys.data, keys.size(), rows, existing);
  cuda_check(cudaGetLastError(), "launching insert_kernel");
}

}  // namespace emblem::cuda
