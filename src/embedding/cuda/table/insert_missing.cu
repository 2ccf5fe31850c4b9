#include "embedding/cuda/table/insert_missing.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/table/evict_in_bins.cuh"
#include "embedding/cuda/table/insert_scratch.cuh"
#include "embedding/cuda/table/occupancy.h"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kInsertThreads = 256;
constexpr uint32_t kNoTicket = 0xffffffffu;

// The missing occurrence `number`.
struct Missing {
  const FeatureRef* feature;
  uint32_t index;
  int64_t key;
};
__device__ Missing missing_at(const BatchRef& batch, uint32_t number) {
  const uint32_t position = batch.missing[number];
  const FeatureRef& feature = batch.feature_of_position(position);
  const uint32_t index = position - feature.first;
  return {&feature, index, feature.keys[index]};
}

// Calls visit(number) for every missing occurrence, by whole warps: numbers may be past the end.
template <class Visit>
__device__ void for_each_missing(uint32_t count, Visit&& visit) {
  const uint32_t step = gridDim.x * kInsertThreads;
  for (uint32_t first = blockIdx.x * kInsertThreads + threadIdx.x / 32 * 32; first < count;
       first += step)
    visit(first + threadIdx.x % 32);
}

// Chooses one occurrence, the leader, to represent each key.
__device__ void find_leaders(const BatchRef& batch, const InsertScratch& scratch, uint32_t count) {
  const uint32_t pass = batch.counters->pass;
  for_each_missing(count, [&](uint32_t number) {
    if (number >= count) return;
    const Missing mine = missing_at(batch, number);
    const int16_t table = mine.feature->table;
    const unsigned long long entry = static_cast<unsigned long long>(pass) << 32 | number;
    uint32_t at =
        static_cast<uint32_t>(mix64(static_cast<uint64_t>(mine.key) + table)) & scratch.map_mask;
    uint32_t leader = number;
    for (;; at = (at + 1) & scratch.map_mask) {
      unsigned long long seen = __ldcg(&scratch.map[at]);
      if (static_cast<uint32_t>(seen >> 32) != pass) {
        const unsigned long long before = atomicCAS(&scratch.map[at], seen, entry);
        if (before == seen) break;
        seen = before;
      }
      const Missing other = missing_at(batch, static_cast<uint32_t>(seen));
      if (other.key == mine.key && other.feature->table == table) {
        leader = static_cast<uint32_t>(seen);
        break;
      }
    }
    scratch.leaders[number] = leader;
    scratch.occurrences[number] = 0;
    scratch.tickets[number] = scratch.wait_tickets[number] = kNoTicket;
    scratch.before[number] = 0;
  });
}

// Gives admitted keys tickets, and adds to the counts of the others.
__device__ void admit(const BatchRef& batch, const InsertScratch& scratch, uint32_t count) {
  for_each_missing(count, [&](uint32_t number) {
    if (number >= count || scratch.leaders[number] != number) return;
    const Missing mine = missing_at(batch, number);
    const DeviceTableRef& table = batch.tables[mine.feature->table];
    if (table.admission_threshold <= 1) {
      scratch.tickets[number] = table.keys.take_ticket(mine.key);
      return;
    }
    const int64_t now = __ldcg(&scratch.occurrences[number]);
    const uint32_t row = table.waiting.find<KeySpace::Read::kFresh>(mine.key);
    const int64_t before = row == kNoRow ? 0 : table.waiting.meta[row].score;
    if (before + now >= table.admission_threshold) {
      scratch.before[number] = before;
      scratch.tickets[number] = table.keys.take_ticket(mine.key);
      if (row != kNoRow && table.waiting.remove(mine.key, row))
        table.waiting.give_back(mine.key, row);
    } else if (row != kNoRow) {
      table.waiting.meta[row].score = before + now;
    } else {
      scratch.wait_tickets[number] = table.waiting.take_ticket(mine.key);
    }
  });
}

// Calls visit(table, bin) for the bins of one of the key spaces of all dynamic tables. Whole grid.
template <class Visit>
__device__ void for_each_bin(const BatchRef& batch, KeySpace DeviceTableRef::*space,
                             Visit&& visit) {
  const uint32_t count = batch.table_count * kMostBins;
  for (uint32_t i = blockIdx.x * kInsertThreads + threadIdx.x; i < count;
       i += gridDim.x * kInsertThreads) {
    const DeviceTableRef& table = batch.tables[i / kMostBins];
    const uint32_t bin = i % kMostBins;
    if ((table.*space).counters != nullptr && bin < (table.*space).bin_count()) visit(table, bin);
  }
}

__device__ void insert_waiting(const BatchRef& batch, const InsertScratch& scratch,
                               uint32_t count) {
  for_each_missing(count, [&](uint32_t number) {
    if (number >= count || scratch.wait_tickets[number] == kNoTicket) return;
    const Missing mine = missing_at(batch, number);
    const KeySpace& waiting = batch.tables[mine.feature->table].waiting;
    const uint32_t bin = waiting.bin_of(mine.key);
    if (scratch.wait_tickets[number] >= waiting.room(bin)) return;
    const uint32_t row = waiting.new_row(bin, scratch.wait_tickets[number]);
    waiting.meta[row] = {mine.key, static_cast<int64_t>(scratch.occurrences[number]), 0, 0};
    waiting.insert(mine.key, row);
  });
}

// A batch has more keys than a bin can hold: its new ones get no rows. One thread.
__device__ void refuse_new_keys(const DeviceTableRef& table, uint32_t bin, uint32_t candidates) {
  KeyCounters& of = table.keys.counters[bin];
  atomicAdd(&table.errors->full, static_cast<unsigned long long>(of.wanted));
  atomicCAS(&table.errors->overfull, 0ull,
            TableErrors::overfull_bin(bin, of.size - candidates + of.wanted));
  of.wanted = 0;
}

// Evicts rows of bins that new keys would not fit into. Whole grid.
__device__ void make_room(const DeviceTableRef& table, SelectScratch* select, FullBins* full,
                          cg::grid_group grid) {
  const KeySpace& keys = table.keys;
  const int64_t limit = (table.capacity != 0 ? table.capacity : keys.rows) / keys.bins.count;
  const auto excess = [&](uint32_t bin) {
    return static_cast<int64_t>(keys.counters[bin].size) + keys.counters[bin].wanted - limit;
  };
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  for_each_full_bin(
      keys.bin_count(), [&](uint32_t bin) { return excess(bin) > 0; }, full, select, grid,
      [&](uint32_t bin, const BlockGroup& group, SelectScratch* scratch) {
        if (table.eviction == Eviction::kNone) {
          if (group.thread_rank() == 0) refuse_new_keys(table, bin, 0);
          return;
        }
        const int64_t least = excess(bin);
        bool fits = true;
        uint32_t all = 0;
        evict_lowest(keys, bin, version, group, scratch, [&](uint32_t candidates) -> uint32_t {
          all = candidates;
          fits = least <= candidates;
          if (!fits) return 0;
          return static_cast<uint32_t>(
              min(static_cast<int64_t>(candidates), max(least, limit / kEvictedShare)));
        });
        if (!fits && group.thread_rank() == 0) refuse_new_keys(table, bin, all);
      });
}

// Initializes a new row. Whole warp. With a cache, a row without a slot is initialized when it gets
// one.
__device__ void insert_values(const DeviceTableRef& table, uint32_t row, int64_t key) {
  if (table.slots != nullptr && table.slots[row] == kNoRow)
    table.keys.meta[row].is_new = 1;
  else
    initialize_row(table, table.row(row), key);
}

// One new key per warp at a time.
__device__ void insert_new(const BatchRef& batch, const InsertScratch& scratch, uint32_t count) {
  for_each_missing(count, [&](uint32_t number) {
    const uint32_t ticket = number < count ? scratch.tickets[number] : kNoTicket;
    Missing mine{};
    uint32_t row = kNoRow;
    if (ticket != kNoTicket) {
      mine = missing_at(batch, number);
      const DeviceTableRef& table = batch.tables[mine.feature->table];
      const uint32_t bin = table.keys.bin_of(mine.key);
      if (table.keys.counters[bin].wanted != 0) {  // 0: the bin is full
        row = table.keys.new_row(bin, ticket);
        const bool counts = table.eviction == Eviction::kLfu;
        // The mark of the previous owner must not look like one of this pass.
        table.keys.meta[row] = {mine.key, counts ? scratch.before[number] : 0, 0, 0};
        table.keys.insert(mine.key, row);
      }
    }
    if (number < count) scratch.tickets[number] = row;
    for (uint32_t left = __ballot_sync(~0u, row != kNoRow); left != 0; left &= left - 1) {
      const int source = __ffs(left) - 1;
      const int table = __shfl_sync(~0u, row != kNoRow ? mine.feature->table : 0, source);
      insert_values(batch.tables[table], __shfl_sync(~0u, row, source),
                    __shfl_sync(~0u, mine.key, source));
    }
  });
}

// Counts the lanes whose key got no row, with one atomic for each feature among them. Whole warp.
__device__ void count_missing(const BatchRef& batch, const FeatureRef& feature, bool missing) {
  const uint32_t lanes = __ballot_sync(~0u, missing);
  if (!missing) return;
  const uint32_t same = __match_any_sync(lanes, static_cast<uint32_t>(feature.number));
  if (static_cast<int>(threadIdx.x % 32) != __ffs(same) - 1) return;
  atomicAdd(&batch.feature_counts[feature.number].missing,
            static_cast<unsigned long long>(__popc(same)));
}

__global__ void __launch_bounds__(kInsertThreads)
    insert_missing_kernel(const __grid_constant__ BatchRef batch, InsertScratch scratch) {
  __shared__ FullBins full;
  const uint32_t count = batch.counters->missing;
  if (count == 0) return;
  const cg::grid_group grid = cg::this_grid();
  find_leaders(batch, scratch, count);
  grid.sync();
  for_each_missing(count, [&](uint32_t number) {
    if (number >= count) return;
    const Missing mine = missing_at(batch, number);
    const int32_t* counts = mine.feature->counts;
    atomicAdd(&scratch.occurrences[scratch.leaders[number]],
              counts != nullptr ? static_cast<uint32_t>(counts[mine.index]) : 1u);
  });
  grid.sync();
  admit(batch, scratch, count);
  grid.sync();
  if (scratch.in_pages) {
    for_each_bin(batch, &DeviceTableRef::waiting,
                 [](const DeviceTableRef& table, uint32_t bin) { table.waiting.add_pages(bin); });
    grid.sync();
  }
  insert_waiting(batch, scratch, count);
  grid.sync();
  for_each_bin(batch, &DeviceTableRef::waiting, [](const DeviceTableRef& table, uint32_t bin) {
    const uint32_t uncounted = table.waiting.take_rows(bin);
    if (uncounted != 0) atomicAdd(&table.errors->uncounted, 1ull * uncounted);
  });
  grid.sync();
  for (int t = 0; t < batch.table_count; ++t) {
    const DeviceTableRef& table = batch.tables[t];
    if (table.is_static()) continue;
    if (table.admission_threshold > 1)
      prune_waiting(table.waiting, table.admission_capacity, scratch.select, &full, grid);
    make_room(table, scratch.select, &full, grid);
  }
  insert_new(batch, scratch, count);
  grid.sync();
  for_each_bin(batch, &DeviceTableRef::keys,
               [](const DeviceTableRef& table, uint32_t bin) { table.keys.take_rows(bin); });
  for_each_missing(count, [&](uint32_t number) {
    const bool there = number < count;
    const uint32_t position = batch.missing[there ? number : 0];
    const FeatureRef& feature = batch.feature_of_position(position);
    const uint32_t row = there ? scratch.tickets[scratch.leaders[number]] : kNoRow;
    count_missing(batch, feature, there && row == kNoRow);
    if (row == kNoRow) return;
    // One number per occurrence: new rows are few, or the pass is slow anyway.
    const uint32_t own =
        batch.class_first[feature.cls] + atomicAdd(&batch.counters->unique[feature.cls], 1u);
    uint32_t rank = 0;
    const unsigned long long seen = __ldcg(batch.tables[feature.table].mark(row));
    batch.uniques[own] = {kNoRow, 0};
    const uint32_t unique = mark_row(batch, feature, row, seen, own, 1, &rank);
    raise_score_by_count(batch, feature, position - feature.first, row);
    batch.unique_ranks[position] = {unique, rank};
  });
}

}  // namespace

void insert_missing(const Context& context, const BatchRef& batch, const InsertScratch& scratch) {
  const auto* kernel = reinterpret_cast<const void*>(insert_missing_kernel);
  void* arguments[] = {const_cast<BatchRef*>(&batch), const_cast<InsertScratch*>(&scratch)};
  // A quarter of the resident blocks: barriers are faster, and most passes insert little.
  const int blocks = std::max(1, resident_blocks(kernel, kInsertThreads) / 4);
  cuda_check(
      cudaLaunchCooperativeKernel(kernel, blocks, kInsertThreads, arguments, 0, context.stream),
      "launching insert_missing_kernel");
}

}  // namespace emblem::cuda
