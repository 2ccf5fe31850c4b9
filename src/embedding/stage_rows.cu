#include "embedding/stage_rows.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "core/cuda_check.h"
#include "embedding/device_batch.cuh"
#include "embedding/exchange_rows.cuh"
#include "embedding/occupancy.h"
#include "embedding/select_lowest.cuh"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = kExchangeThreads;
constexpr int kDigits = 3;  // of kDigitBits, of the time a slot was used

// Where in the counters things are.
struct Counters {
  uint32_t* histograms;  // [kDigits][kBins]
  uint32_t* places[2];   // [kPlaces] of rows that come, and that leave
  uint32_t *missing, *taken, *ties, *candidates;
  __device__ explicit Counters(uint32_t* at)
      : histograms(at),
        places{at + kDigits * kBins, at + kDigits * kBins + kPlaces},
        missing(at + kDigits * kBins + 2 * kPlaces),
        taken(missing + 1),
        ties(missing + 2),
        candidates(missing + 3) {}
};
static_assert(kStageCounters == kDigits * kBins + 2 * kPlaces + 4);

// Rows of the pass: those in the cache are noted as used, others listed.
__device__ void list_missing_rows(const BatchRef& batch, int number, int cls,
                                  const DeviceTableRef& table, uint32_t version, uint32_t* missing,
                                  Counters counters) {
  const uint32_t first = batch.class_first[cls], count = batch.counters->unique[cls];
  uint32_t rows = 0;
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const UniqueRow unique = batch.uniques[first + i];
    if (unique.row == kNoRow || unique.table != static_cast<uint32_t>(number)) continue;
    const uint32_t slot = table.slots[unique.row];
    ++rows;
    if (slot == kNoRow) {
      missing[atomicAdd(counters.missing, 1u)] = unique.row;
    } else {
      table.cache.used[slot] = version;
      table.cache.changed[slot] = 1;
    }
  }
  rows = __reduce_add_sync(~0u, rows);
  if (threadIdx.x % 32 == 0 && rows != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(&table.clocks->staged),
              static_cast<unsigned long long>(rows));
}

// Of the rows noted for a coming pass, those of a table; they leave the map.
__device__ void list_noted_rows(const FarRows& far, int number, uint32_t* missing,
                                Counters counters) {
  const uint32_t count = far.counters->rows;
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const uint32_t entry = far.entries[i];
    const unsigned long long noted = far.map[entry];
    if (noted == 0 || FarRows::table_of(noted) != static_cast<uint32_t>(number)) continue;
    missing[atomicAdd(counters.missing, 1u)] = FarRows::row_of(noted);
    far.map[entry] = 0;
  }
}

template <class Visit>
__device__ void for_each_slot(const CacheRef& cache, Visit&& visit) {
  for (uint32_t slot = blockIdx.x * kThreads + threadIdx.x; slot < cache.count;
       slot += gridDim.x * kThreads)
    visit(slot, cache.used[slot]);
}

// The time up to which slots must go so that `wanted` are free: all that were used before it, and
// *ties of those used at it. Slots used since `pinned` stay. Whole grid.
__device__ uint32_t find_limit(const CacheRef& cache, uint32_t pinned, uint32_t wanted,
                               Counters counters, cg::grid_group grid, uint32_t* ties) {
  __shared__ uint32_t histogram[kBins];
  __shared__ uint32_t chosen, below, inside;
  uint32_t prefix = 0, k = wanted;
  for (int round = 0, bit = 32; round < kDigits; ++round) {
    const int shift = max(0, bit - kDigitBits);
    for (int i = threadIdx.x; i < kBins; i += kThreads) histogram[i] = 0;
    __syncthreads();
    for_each_slot(cache, [&](uint32_t, uint32_t used) {
      if (used >= pinned || (bit < 32 && (used ^ prefix) >> bit != 0)) return;
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

// kComing: before the pass, while the one before it may be updating its rows.
template <bool kComing>
__global__ void __launch_bounds__(kThreads)
    stage_rows_kernel(const __grid_constant__ BatchRef batch, int number, int cls,
                      StageScratch scratch) {
  const DeviceTableRef& table = batch.tables[number];
  const cg::grid_group grid = cg::this_grid();
  const Counters counters(scratch.counters);
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  const uint32_t pinned = kComing ? max(1u, version - 1) : version;  // 0: slots never used
  if (kComing)
    list_noted_rows(batch.far, number, scratch.missing, counters);
  else
    list_missing_rows(batch, number, cls, table, version, scratch.missing, counters);
  grid.sync();
  const uint32_t missing = *counters.missing;
  if (missing == 0) return;
  if (grid.thread_rank() == 0 && is_ferried(table, scratch, missing)) call_ferry(scratch.berth);
  uint32_t evictable = 0;
  for_each_slot(table.cache, [&](uint32_t, uint32_t used) { evictable += used < pinned; });
  evictable = __reduce_add_sync(~0u, evictable);
  if (threadIdx.x % 32 == 0) atomicAdd(counters.candidates, evictable);
  if (grid.thread_rank() == 0) wait_for_scatters(table);
  grid.sync();
  const uint32_t wanted = min(missing, *counters.candidates);
  if (grid.thread_rank() == 0) {
    if (kComing)
      table.clocks->prefetched += wanted;
    else
      table.clocks->missed += missing;
  }
  uint32_t ties = 0;
  const uint32_t limit =
      wanted == 0 ? 0 : find_limit(table.cache, pinned, wanted, counters, grid, &ties);
  for_each_slot(table.cache, [&](uint32_t slot, uint32_t used) {
    if (wanted == 0 || used >= pinned || used > limit) return;
    if (used == limit && atomicAdd(counters.ties, 1u) >= ties) return;
    scratch.victims[atomicAdd(counters.taken, 1u)] = slot;
  });
  grid.sync();
  const int64_t rows = table.is_static() ? table.capacity : table.keys.rows;
  sort_by_place<kThreads>(scratch.missing, missing, scratch.sorted_missing, counters.places[0],
                          grid, [&](uint32_t row) { return place_of(row, rows); });
  sort_by_place<kThreads>(scratch.victims, wanted, scratch.sorted_victims, counters.places[1], grid,
                          [&](uint32_t slot) {
                            const uint32_t row = leaving_row(table, slot);
                            return row == kNoRow ? 0 : place_of(row, rows);
                          });
  grid.sync();
  exchange(table, scratch, wanted, version, !kComing, grid);
  if (wanted < missing) {  // the others are used where they are, from here on
    if (grid.thread_rank() == 0) wait_for_scatters(table);
    grid.sync();
  }
  // Without a slot, a new row gets its values in host memory.
  const uint32_t warps = gridDim.x * (kThreads / 32);
  for (uint32_t i = wanted + blockIdx.x * (kThreads / 32) + threadIdx.x / 32; i < missing;
       i += warps) {
    const uint32_t row = scratch.sorted_missing[i];
    if (table.is_static() || table.keys.meta[row].is_new == 0) continue;
    initialize_row(table, table.host_rows + row * table.stride, table.keys.meta[row].key);
    __syncwarp();
    if (threadIdx.x % 32 == 0) table.keys.meta[row].is_new = 0;
  }
  grid.sync();
  for (uint32_t i = grid.thread_rank(); i < kStageCounters; i += gridDim.x * kThreads)
    scratch.counters[i] = 0;
}

// A thread a key.
__global__ void __launch_bounds__(kThreads)
    note_coming_rows_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t tile = (blockIdx.x * kThreads + threadIdx.x) / kTile;
  if (tile >= batch.tiles) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  const DeviceTableRef& table = batch.tables[feature.table];
  if (table.slots == nullptr || table.updates_all_rows) return;
  const uint32_t place = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  const auto last = static_cast<uint32_t>(table.clocks->version);
  const uint32_t row = place < feature.count ? table.find_if_there(feature.keys[place]) : kNoRow;
  const uint32_t slot = row != kNoRow ? table.slots[row] : kNoRow;
  if (slot != kNoRow) table.cache.used[slot] = last + 1;
  // The last pass may be updating a row in host memory, if it had no slot for it.
  const bool is_far = row != kNoRow && slot == kNoRow &&
                      (last == 0 || static_cast<uint32_t>(*table.mark(row) >> 32) != last);
  batch.far.note(static_cast<uint32_t>(feature.table), row, is_far);
}

template <bool kComing>
void launch(const Context& context, const BatchRef& batch, int table, int cls,
            const StageScratch& scratch) {
  const auto* kernel = reinterpret_cast<const void*>(stage_rows_kernel<kComing>);
  void* arguments[] = {const_cast<BatchRef*>(&batch), &table, &cls,
                       const_cast<StageScratch*>(&scratch)};
  // Few warps fill the bus, and keep the rows that are on their way close together.
  cuda_check(cudaLaunchCooperativeKernel(kernel, std::max(1, resident_blocks(kernel, kThreads) / 4),
                                         kThreads, arguments, 0, context.stream),
             "launching stage_rows_kernel");
}

}  // namespace

void stage_rows(const Context& context, const BatchRef& batch, int table, int cls,
                const StageScratch& scratch) {
  launch<false>(context, batch, table, cls, scratch);
}

void stage_coming_rows(const Context& context, const BatchRef& batch, int table,
                       const StageScratch& scratch) {
  launch<true>(context, batch, table, 0, scratch);
}

void note_coming_rows(const Context& context, const BatchRef& batch) {
  if (batch.tiles == 0) return;
  const uint32_t blocks = (batch.tiles * kTile + kThreads - 1) / kThreads;
  note_coming_rows_kernel<<<blocks, kThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching note_coming_rows_kernel");
}

}  // namespace emblem::cuda
