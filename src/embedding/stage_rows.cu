#include "embedding/stage_rows.h"

#include <cooperative_groups.h>

#include "core/cuda_check.h"
#include "embedding/device_batch.cuh"
#include "embedding/occupancy.h"
#include "embedding/select_lowest.cuh"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 256;
constexpr int kDigits = 3;  // of kDigitBits, of the time a slot was used

// Where in the counters things are.
struct Counters {
  uint32_t* histograms;  // [kDigits][kBins]
  uint32_t *missing, *taken, *ties, *candidates;
  __device__ explicit Counters(uint32_t* at)
      : histograms(at), missing(at + kDigits * kBins), taken(missing + 1), ties(missing + 2), candidates(missing + 3) {}
};

// Rows of the pass: those in the cache are noted as used, others listed.
__device__ void list_missing_rows(const BatchRef& batch, int number, int cls,
                                  const DeviceTableRef& table, uint32_t version, uint32_t* missing,
                                  Counters counters) {
  const uint32_t first = batch.class_first[cls], count = batch.counters->unique[cls];
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const UniqueRow unique = batch.uniques[first + i];
    if (unique.row == kNoRow || unique.table != static_cast<uint32_t>(number)) continue;
    const uint32_t slot = table.slots[unique.row];
    if (slot == kNoRow) {
      missing[atomicAdd(counters.missing, 1u)] = unique.row;
    } else {
      table.cache.used[slot] = version;
      table.cache.changed[slot] = 1;
    }
  }
}

template <class Visit>
__device__ void for_each_slot(const CacheRef& cache, Visit&& visit) {
  for (uint32_t slot = blockIdx.x * kThreads + threadIdx.x; slot < cache.count;
       slot += gridDim.x * kThreads)
    visit(slot, cache.used[slot]);
}

// The time up to which slots must go so that `wanted` are free: all that were used before it, and
// *ties of those used at it. Whole grid.
__device__ uint32_t find_limit(const CacheRef& cache, uint32_t version, uint32_t wanted,
                               Counters counters, cg::grid_group grid, uint32_t* ties) {
  __shared__ uint32_t histogram[kBins];
  __shared__ uint32_t chosen, below, inside;
  uint32_t prefix = 0, k = wanted;
  for (int round = 0, bit = 32; round < kDigits; ++round) {
    const int shift = max(0, bit - kDigitBits);
    for (int i = threadIdx.x; i < kBins; i += kThreads) histogram[i] = 0;
    __syncthreads();
    for_each_slot(cache, [&](uint32_t, uint32_t used) {
      if (used == version || (bit < 32 && (used ^ prefix) >> bit != 0)) return;
      atomicAdd(&histogram[used >> shift & ((1u << (bit - shift)) - 1)], 1u);
    });
    __syncthreads();
    uint32_t* total = counters.histograms + round * kBins;
    for (int i = threadIdx.x; i < kBins; i += kThreads) {
      if (histogram[i] != 0) atomicAdd(&total[i], histogram[i]);
    }
    grid.sync();
    choose_bin(total, k, &chosen, &below, &inside);
    __syncthreads();
    prefix |= chosen << shift;
    k -= below;
    bit = shift;
    __syncthreads();
  }
  *ties = k;
  return prefix;
}

// Sixteen bytes a lane at a time; host memory is read and written without passing the caches.
__device__ void copy_row(char* to, const char* from, int64_t bytes) {
  for (int64_t at = threadIdx.x % 32 * 16; at < bytes; at += 512) {
    const uint4 part = __ldcs(reinterpret_cast<const uint4*>(from + at));
    __stcs(reinterpret_cast<uint4*>(to + at), part);
  }
}

// A warp a row: what is in the slot leaves, the row comes.
__device__ void exchange(const DeviceTableRef& table, uint32_t slot, uint32_t row, uint32_t version) {
  const int lane = threadIdx.x % 32;
  char* place = table.rows + slot * table.stride;
  const uint32_t old = table.cache.rows[slot];
  const bool is_new = !table.is_static() && table.keys.meta[row].is_new != 0;
  // A row that left the table may still have a slot: its values are nobody's.
  const bool owned = old != kNoRow && table.slots[old] == slot;
  if (owned && table.cache.changed[slot] != 0)
    copy_row(table.host_rows + old * table.stride, place, table.stride);
  __syncwarp();
  if (is_new)
    initialize_row(table, place, table.keys.meta[row].key);
  else
    copy_row(place, table.host_rows + row * table.stride, table.stride);
  __syncwarp();
  if (lane != 0) return;
  if (owned) table.slots[old] = kNoRow;
  table.slots[row] = slot;
  table.cache.rows[slot] = row;
  table.cache.used[slot] = version;
  table.cache.changed[slot] = 1;
  if (is_new) table.keys.meta[row].is_new = 0;
}

__global__ void __launch_bounds__(kThreads)
    stage_rows_kernel(const __grid_constant__ BatchRef batch, int number, int cls,
                      StageScratch scratch) {
  const DeviceTableRef& table = batch.tables[number];
  const cg::grid_group grid = cg::this_grid();
  const Counters counters(scratch.counters);
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  list_missing_rows(batch, number, cls, table, version, scratch.missing, counters);
  grid.sync();
  const uint32_t missing = *counters.missing;
  if (missing == 0) return;
  uint32_t evictable = 0;
  for_each_slot(table.cache, [&](uint32_t, uint32_t used) { evictable += used != version; });
  evictable = __reduce_add_sync(~0u, evictable);
  if (threadIdx.x % 32 == 0) atomicAdd(counters.candidates, evictable);
  grid.sync();
  const uint32_t wanted = min(missing, *counters.candidates);
  uint32_t ties = 0;
  const uint32_t limit =
      wanted == 0 ? 0 : find_limit(table.cache, version, wanted, counters, grid, &ties);
  for_each_slot(table.cache, [&](uint32_t slot, uint32_t used) {
    if (wanted == 0 || used == version || used > limit) return;
    if (used == limit && atomicAdd(counters.ties, 1u) >= ties) return;
    scratch.victims[atomicAdd(counters.taken, 1u)] = slot;
  });
  grid.sync();
  const uint32_t warps = gridDim.x * (kThreads / 32);
  for (uint32_t i = blockIdx.x * (kThreads / 32) + threadIdx.x / 32; i < missing; i += warps) {
    const uint32_t row = scratch.missing[i];
    if (i < wanted) {
      exchange(table, scratch.victims[i], row, version);
    } else if (!table.is_static() && table.keys.meta[row].is_new != 0) {
      initialize_row(table, table.host_rows + row * table.stride, table.keys.meta[row].key);
      __syncwarp();
      if (threadIdx.x % 32 == 0) table.keys.meta[row].is_new = 0;
    }
  }
  grid.sync();
  for (uint32_t i = grid.thread_rank(); i < kStageCounters; i += gridDim.x * kThreads)
    scratch.counters[i] = 0;
}

}  // namespace

void stage_rows(const Context& context, const BatchRef& batch, int table, int cls,
                const StageScratch& scratch) {
  const auto* kernel = reinterpret_cast<const void*>(stage_rows_kernel);
  void* arguments[] = {const_cast<BatchRef*>(&batch), &table, &cls, const_cast<StageScratch*>(&scratch)};
  cuda_check(cudaLaunchCooperativeKernel(kernel, resident_blocks(kernel, kThreads), kThreads,
                                         arguments, 0, context.stream),
             "launching stage_rows_kernel");
}

}  // namespace emblem::cuda
