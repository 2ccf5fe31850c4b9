#include "embedding/cuda/lookup/stage_rows.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/lookup/exchange_rows.cuh"
#include "embedding/cuda/table/block_list.cuh"
#include "embedding/cuda/table/occupancy.h"
#include "embedding/cuda/table/select_lowest.cuh"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kDigits = 3;  // digits of kDigitBits, of the time a slot was used

// The layout of StageScratch::counters.
struct Counters {
  uint32_t* histograms;  // [kDigits][kDigitValues]
  uint32_t* bins[2];     // [kAddressBins] of rows to fetch, and to write back
  uint32_t *missing, *taken, *ties, *candidates;
  __device__ explicit Counters(uint32_t* at)
      : histograms(at),
        bins{at + kDigits * kDigitValues, at + kDigits * kDigitValues + kAddressBins},
        missing(at + kDigits * kDigitValues + 2 * kAddressBins),
        taken(missing + 1),
        ties(missing + 2),
        candidates(missing + 3) {}
};
static_assert(kStageCounters == kDigits * kDigitValues + 2 * kAddressBins + 4);

// Rows of the pass: marks those in the cache as used, and lists the others.
__device__ void list_missing_rows(const BatchRef& batch, int number, int cls,
                                  const DeviceTableRef& table, uint32_t version, uint32_t* missing,
                                  Counters counters, BlockList& found) {
  const uint32_t first = batch.class_first[cls], count = batch.counters->unique[cls];
  uint32_t rows = 0;
  found.begin();
  for (uint32_t i = blockIdx.x * kExchangeThreads + threadIdx.x; i < count;
       i += gridDim.x * kExchangeThreads) {
    const UniqueRow unique = batch.uniques[first + i];
    if (unique.row == kNoRow || unique.table != static_cast<uint32_t>(number)) continue;
    const uint32_t slot = table.slots[unique.row];
    ++rows;
    if (slot == kNoRow) {
      found.add(unique.row, missing, counters.missing);
    } else {
      table.cache.used[slot] = version;
      table.cache.changed[slot] = 1;
    }
  }
  found.end(missing, counters.missing);
  rows = __reduce_add_sync(~0u, rows);
  if (threadIdx.x % 32 == 0 && rows != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(&table.clocks->staged),
              static_cast<unsigned long long>(rows));
}

// Rows of a table that were listed for the next pass; removes them from the map.
__device__ void list_prefetched_rows(const UncachedRows& uncached, int number, uint32_t* missing,
                                     Counters counters, BlockList& found) {
  const uint32_t count = uncached.counters->rows;
  found.begin();
  for (uint32_t i = blockIdx.x * kExchangeThreads + threadIdx.x; i < count;
       i += gridDim.x * kExchangeThreads) {
    const uint32_t entry = uncached.entries[i];
    const unsigned long long value = uncached.map[entry];
    if (value == 0 || UncachedRows::table_of(value) != static_cast<uint32_t>(number)) continue;
    found.add(UncachedRows::row_of(value), missing, counters.missing);
    uncached.map[entry] = 0;
  }
  found.end(missing, counters.missing);
}

// Visits all slots; each thread has sixteen loads in flight.
template <class Visit>
__device__ void for_each_slot(const CacheRef& cache, Visit&& visit) {
  constexpr int kAtOnce = 4;
  const uint32_t threads = gridDim.x * kExchangeThreads,
                 thread = blockIdx.x * kExchangeThreads + threadIdx.x;
  const uint32_t fours = cache.count / 4;
  const auto* used = reinterpret_cast<const uint4*>(cache.used);
  for (uint32_t begin = thread; begin < fours; begin += kAtOnce * threads) {
    uint4 values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (begin + i * threads < fours) values[i] = used[begin + i * threads];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint32_t slot = (begin + i * threads) * 4;
      if (begin + i * threads >= fours) break;
      visit(slot, values[i].x);
      visit(slot + 1, values[i].y);
      visit(slot + 2, values[i].z);
      visit(slot + 3, values[i].w);
    }
  }
  for (uint32_t slot = fours * 4 + thread; slot < cache.count; slot += threads)
    visit(slot, cache.used[slot]);
}

// A digit of the time a slot was used: bits [shift, bit).
struct Digit {
  int bit, shift;

  // The highest of times before `pinned`.
  __device__ static Digit highest(uint32_t pinned) {
    return from(pinned <= 2 ? 1 : 32 - __clz(static_cast<int>(pinned - 1)));
  }
  __device__ static Digit from(int bit) { return {bit, max(0, bit - kDigitBits)}; }
  __device__ Digit next() const { return from(shift); }
  __device__ bool is_last() const { return shift == 0; }
  // Whether higher digits of `used` are those of `prefix`.
  __device__ bool follows(uint32_t prefix, uint32_t used) const {
    return bit >= 32 || (used ^ prefix) >> bit == 0;
  }
  __device__ uint32_t of(uint32_t used) const {
    return used >> shift & ((1u << (bit - shift)) - 1);
  }
};

// Adds to `total` the histogram of the digit, over slots that were used before `pinned` at times
// that begin with `prefix`. Whole grid; needs a grid barrier afterwards. Returns how many the
// thread counted.
__device__ uint32_t count_digit(const CacheRef& cache, uint32_t pinned, uint32_t prefix,
                                Digit digit, uint32_t* total) {
  __shared__ uint32_t histogram[kDigitValues];
  for (int i = threadIdx.x; i < kDigitValues; i += kExchangeThreads) histogram[i] = 0;
  __syncthreads();
  uint32_t seen = 0;
  for_each_slot(cache, [&](uint32_t, uint32_t used) {
    if (used >= pinned || !digit.follows(prefix, used)) return;
    ++seen;
    atomicAdd(&histogram[digit.of(used)], 1u);
  });
  __syncthreads();
  for (int i = threadIdx.x; i < kDigitValues; i += kExchangeThreads) {
    if (histogram[i] != 0) atomicAdd(&total[i], histogram[i]);
  }
  return seen;
}

// The time limit for eviction that frees `wanted` slots: all that were used before it, and *ties of
// those used at it. Slots used since `pinned` are kept. The first digit has been counted. Whole
// grid.
__device__ uint32_t find_limit(const CacheRef& cache, uint32_t pinned, uint32_t wanted,
                               Counters counters, cg::grid_group grid, uint32_t* ties) {
  __shared__ uint32_t chosen, below, inside;
  uint32_t prefix = 0, k = wanted;
  uint32_t* total = counters.histograms;
  for (Digit digit = Digit::highest(pinned);; digit = digit.next(), total += kDigitValues) {
    if (total != counters.histograms) {
      count_digit(cache, pinned, prefix, digit, total);
      grid.sync();
    }
    choose_digit(total, k, &chosen, &below, &inside);
    __syncthreads();
    prefix |= chosen << digit.shift;
    k -= below;
    __syncthreads();
    if (digit.is_last()) break;
  }
  *ties = k;
  return prefix;
}

// Lists the slots to free. Whole grid; needs a grid barrier afterwards.
__device__ void choose_victims(const CacheRef& cache, uint32_t pinned, uint32_t wanted,
                               uint32_t* victims, Counters counters, cg::grid_group grid,
                               BlockList& found) {
  uint32_t ties = 0;
  const uint32_t limit = find_limit(cache, pinned, wanted, counters, grid, &ties);
  found.begin();
  for_each_slot(cache, [&](uint32_t slot, uint32_t used) {
    if (used >= pinned || used > limit) return;
    if (used == limit && atomicAdd(counters.ties, 1u) >= ties) return;
    found.add(slot, victims, counters.taken);
  });
  found.end(victims, counters.taken);
}

// Gives rows [0, count) of sorted_missing slots that were used before `pinned`. Whole grid. The
// table has no pending scatters; afterwards it may have some.
__device__ void exchange(const DeviceTableRef& table, const StageScratch& scratch, uint32_t count,
                         uint32_t version, uint32_t pinned, bool changed, Counters counters,
                         cg::grid_group grid, BlockList& found) {
  const bool transferred = is_transferred(table, scratch, count);
  // Slots are chosen while host threads gather the rows.
  const unsigned long long first =
      transferred ? request_missing(table, scratch, 0, count, grid) : 0;
  choose_victims(table.cache, pinned, count, scratch.victims, counters, grid, found);
  grid.sync();
  const int64_t rows = table.is_static() ? table.capacity : table.keys.rows;
  sort_by_address<kExchangeThreads>(scratch.victims, count, scratch.sorted_victims,
                                    counters.bins[1], grid, [&](uint32_t slot) {
                                      const uint32_t row = row_to_write_back(table, slot);
                                      return row == kNoRow ? 0 : address_bin(row, rows);
                                    });
  grid.sync();
  if (transferred)
    exchange_by_transfer(table, scratch, count, version, changed, first, grid);
  else
    exchange_directly(table, scratch, count, version, changed, grid);
}

// kPrefetch: ahead of the pass, while the current one may be updating its rows.
template <bool kPrefetch>
__global__ void __launch_bounds__(kExchangeThreads)
    stage_rows_kernel(const __grid_constant__ BatchRef batch, int number, int cls,
                      StageScratch scratch) {
  __shared__ BlockList found;
  const DeviceTableRef& table = batch.tables[number];
  const cg::grid_group grid = cg::this_grid();
  const Counters counters(scratch.counters);
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  const uint32_t pinned = kPrefetch ? max(1u, version - 1) : version;  // 0: slots never used
  if (kPrefetch)
    list_prefetched_rows(batch.uncached, number, scratch.missing, counters, found);
  else
    list_missing_rows(batch, number, cls, table, version, scratch.missing, counters, found);
  grid.sync();
  const uint32_t missing = *counters.missing;
  if (missing == 0) return;
  if (grid.thread_rank() == 0 && is_transferred(table, scratch, missing))
    wake_host(scratch.staging);
  const uint32_t evictable = __reduce_add_sync(
      ~0u, count_digit(table.cache, pinned, 0, Digit::highest(pinned), counters.histograms));
  if (threadIdx.x % 32 == 0) atomicAdd(counters.candidates, evictable);
  if (grid.thread_rank() == 0) wait_for_write_backs(table);
  const int64_t rows = table.is_static() ? table.capacity : table.keys.rows;
  sort_by_address<kExchangeThreads>(scratch.missing, missing, scratch.sorted_missing,
                                    counters.bins[0], grid,
                                    [&](uint32_t row) { return address_bin(row, rows); });
  grid.sync();
  const uint32_t wanted = min(missing, *counters.candidates);
  if (grid.thread_rank() == 0) {
    if (kPrefetch)
      table.clocks->prefetched += wanted;
    else
      table.clocks->missed += missing;
  }
  if (wanted > 0)
    exchange(table, scratch, wanted, version, pinned, !kPrefetch, counters, grid, found);
  if (wanted < missing) {  // the others are used in host memory
    if (grid.thread_rank() == 0) wait_for_write_backs(table);
    grid.sync();
  }
  // A new row without a slot is initialized in host memory.
  const uint32_t warps = gridDim.x * (kExchangeThreads / 32);
  for (uint32_t i = wanted + blockIdx.x * (kExchangeThreads / 32) + threadIdx.x / 32; i < missing;
       i += warps) {
    const uint32_t row = scratch.sorted_missing[i];
    if (table.is_static() || table.keys.meta[row].is_new == 0) continue;
    initialize_row(table, table.host_rows + row * table.stride, table.keys.meta[row].key);
    __syncwarp();
    if (threadIdx.x % 32 == 0) table.keys.meta[row].is_new = 0;
  }
  grid.sync();
  for (uint32_t i = grid.thread_rank(); i < kStageCounters; i += gridDim.x * kExchangeThreads)
    scratch.counters[i] = 0;
}

// One thread per key.
__global__ void __launch_bounds__(kExchangeThreads)
    list_prefetch_rows_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t tile = (blockIdx.x * kExchangeThreads + threadIdx.x) / kTile;
  if (tile >= batch.tiles) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  const DeviceTableRef& table = batch.tables[feature.table];
  if (table.slots == nullptr || table.updates_all_rows) return;
  const uint32_t index = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  const auto last = static_cast<uint32_t>(table.clocks->version);
  const uint32_t row = index < feature.count ? table.find_if_present(feature.keys[index]) : kNoRow;
  const uint32_t slot = row != kNoRow ? table.slots[row] : kNoRow;
  if (slot != kNoRow) table.cache.used[slot] = last + 1;
  // The current pass may be updating a row in host memory, if there was no slot for it.
  const bool in_host_memory = row != kNoRow && slot == kNoRow &&
                              (last == 0 || static_cast<uint32_t>(*table.mark(row) >> 32) != last);
  batch.uncached.add(static_cast<uint32_t>(feature.table), row, in_host_memory);
}

template <bool kPrefetch>
void stage(const Context& context, const BatchRef& batch, int table, int cls,
           const StageScratch& scratch) {
  const auto* kernel = reinterpret_cast<const void*>(stage_rows_kernel<kPrefetch>);
  void* arguments[] = {const_cast<BatchRef*>(&batch), &table, &cls,
                       const_cast<StageScratch*>(&scratch)};
  // Few warps saturate the bus, and their rows are close together in memory.
  cuda_check(cudaLaunchCooperativeKernel(kernel,
                                         std::max(1, resident_blocks(kernel, kExchangeThreads) / 4),
                                         kExchangeThreads, arguments, 0, context.stream),
             "launching stage_rows_kernel");
}

}  // namespace

void stage_rows(const Context& context, const BatchRef& batch, int table, int cls,
                const StageScratch& scratch) {
  stage<false>(context, batch, table, cls, scratch);
}

void prefetch_rows(const Context& context, const BatchRef& batch, int table,
                   const StageScratch& scratch) {
  stage<true>(context, batch, table, 0, scratch);
}

void list_prefetch_rows(const Context& context, const BatchRef& batch) {
  if (batch.tiles == 0) return;
  const uint32_t blocks = (batch.tiles * kTile + kExchangeThreads - 1) / kExchangeThreads;
  list_prefetch_rows_kernel<<<blocks, kExchangeThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching list_prefetch_rows_kernel");
}

}  // namespace emblem::cuda
