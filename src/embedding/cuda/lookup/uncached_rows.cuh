// embedding/cuda/lookup/uncached_rows.cuh - the set of distinct rows of a batch that are not in the
// caches of their tables. The tables are not changed.
#pragma once

#include "embedding/cuda/lookup/by_address.cuh"
#include "embedding/cuda/table/device_table_ref.cuh"
#include "embedding/cuda/table/warp_append.cuh"

namespace emblem::cuda {

// Counters in device memory; zero before and after.
struct UncachedCounters {
  uint32_t rows;         // distinct
  uint32_t occurrences;  // that wait for their row
  uint32_t bins[kAddressBins];
};

struct UncachedRows {
  // A hash set of the batch: 1 << 63 | table << 32 | row. At most half full; zero before and after.
  unsigned long long* map = nullptr;
  uint32_t map_mask = 0;
  uint32_t *entries = nullptr, *sorted = nullptr;  // [positions] of the map: the distinct rows
  uint2* occurrences = nullptr;                    // [positions] position, entry
  uint32_t* index = nullptr;  // [map] a fetched row's number in `staged`, or kInHostMemory | row
  char* staged = nullptr;     // [staged_rows] weights
  int64_t staged_stride = 0;
  uint32_t staged_rows = 0;
  UncachedCounters* counters = nullptr;

  // A flag bit: tables with a cache have fewer rows, and the map fewer entries.
  static constexpr uint32_t kInHostMemory = 1u << 31;

  // The table of a value in the map.
  __device__ static uint32_t table_of(unsigned long long value) {
    return static_cast<uint32_t>(value >> 32) & ~kInHostMemory;
  }
  __device__ static uint32_t row_of(unsigned long long value) {
    return static_cast<uint32_t>(value);
  }

  // Adds the rows of the lanes with `in_host_memory`; returns their entries in the map. Whole warp.
  __device__ uint32_t add(uint32_t table, uint32_t row, bool in_host_memory) const {
    if (!__any_sync(~0u, in_host_memory)) return 0;
    const auto value = 1ull << 63 | static_cast<unsigned long long>(table) << 32 | row;
    uint32_t at = static_cast<uint32_t>(mix64(value)) & map_mask;
    bool first = false;
    for (; in_host_memory; at = (at + 1) & map_mask) {
      unsigned long long seen = __ldcg(&map[at]);
      if (seen == 0) seen = atomicCAS(&map[at], 0ull, value);
      first = seen == 0;
      if (first || seen == value) break;
    }
    const uint32_t number = reserve_entries(&counters->rows, first);
    if (first) entries[number] = at;
    return at;
  }
  // Lists `position` among those that need the row of `entry`. Whole warp.
  __device__ void add_occurrence(uint32_t position, uint32_t entry, bool in_host_memory) const {
    if (!__any_sync(~0u, in_host_memory)) return;
    const uint32_t number = reserve_entries(&counters->occurrences, in_host_memory);
    if (in_host_memory) occurrences[number] = {position, entry};
  }

  // Where a row is, for row_at: its slot, or kInHostMemory | entry. Whole warp; kNoRow for lanes
  // without a row.
  __device__ uint32_t locate(const DeviceTableRef& table, uint32_t number, uint32_t row) const {
    if (table.slots == nullptr) return row;
    const uint32_t slot = row != kNoRow ? table.slots[row] : kNoRow;
    const bool in_host_memory = row != kNoRow && slot == kNoRow;
    const uint32_t entry = add(number, row, in_host_memory);
    return in_host_memory ? kInHostMemory | entry : slot;
  }
  // The row after fetch_uncached_rows.
  __device__ const char* row_at(const DeviceTableRef& table, uint32_t location) const {
    const bool in_host_memory = table.slots != nullptr && (location & kInHostMemory) != 0;
    return in_host_memory ? fetched(table, location & ~kInHostMemory)
                          : table.rows + location * table.stride;
  }
  __device__ const char* fetched(const DeviceTableRef& table, uint32_t entry) const {
    const uint32_t at = index[entry];
    return (at & kInHostMemory) != 0 ? table.host_rows + (at & ~kInHostMemory) * table.stride
                                     : staged + at * staged_stride;
  }
};

}  // namespace emblem::cuda
