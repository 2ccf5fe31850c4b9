// embedding/cuda/uncached_rows.cuh - the rows of a batch that are in host memory alone: each is
// noted once, with the table it belongs to, and nothing in the table changes.
#pragma once

#include "embedding/cuda/by_address.cuh"
#include "embedding/cuda/device_table_ref.cuh"

namespace emblem::cuda {

// In device memory; zero before and after.
struct UncachedCounters {
  uint32_t rows;         // distinct
  uint32_t occurrences;  // that wait for their row
  uint32_t places[kPlaces];
};

struct UncachedRows {
  // A hash map of the batch: 1 << 63 | table << 32 | row. At most half full; zero before and after.
  unsigned long long* map = nullptr;
  uint32_t map_mask = 0;
  uint32_t *entries = nullptr, *sorted = nullptr;  // [positions] of the map: the distinct rows
  uint2* occurrences = nullptr;                    // [positions] position, entry
  uint32_t* index = nullptr;  // [map] a fetched row's number in `staged`, or kInHostMemory | row
  char* staged = nullptr;     // [staged_rows] weights
  int64_t staged_stride = 0;
  uint32_t staged_rows = 0;
  UncachedCounters* counters = nullptr;

  // Tables with a cache have fewer rows, the map fewer entries.
  static constexpr uint32_t kInHostMemory = 1u << 31;

  __device__ static uint32_t table_of(unsigned long long noted) {
    return static_cast<uint32_t>(noted >> 32) & ~kInHostMemory;
  }
  __device__ static uint32_t row_of(unsigned long long noted) {
    return static_cast<uint32_t>(noted);
  }

  // Notes the rows of the lanes with `in_host_memory`; returns the entry. Whole warp.
  __device__ uint32_t note(uint32_t table, uint32_t row, bool in_host_memory) const {
    if (!__any_sync(~0u, in_host_memory)) return 0;
    const auto noted = 1ull << 63 | static_cast<unsigned long long>(table) << 32 | row;
    uint32_t at = static_cast<uint32_t>(mix64(noted)) & map_mask;
    bool first = false;
    for (; in_host_memory; at = (at + 1) & map_mask) {
      unsigned long long seen = __ldcg(&map[at]);
      if (seen == 0) seen = atomicCAS(&map[at], 0ull, noted);
      first = seen == 0;
      if (first || seen == noted) break;
    }
    const uint32_t place = take_places(&counters->rows, first);
    if (first) entries[place] = at;
    return at;
  }
  // Notes that `position` waits for the row of `entry`. Whole warp.
  __device__ void wait(uint32_t position, uint32_t entry, bool in_host_memory) const {
    if (!__any_sync(~0u, in_host_memory)) return;
    const uint32_t place = take_places(&counters->occurrences, in_host_memory);
    if (in_host_memory) occurrences[place] = {position, entry};
  }

  // Where a row is, for row_at: the number of its slot, or kInHostMemory | entry. Whole warp;
  // kNoRow for lanes without a row.
  __device__ uint32_t place(const DeviceTableRef& table, uint32_t number, uint32_t row) const {
    if (table.slots == nullptr) return row;
    const uint32_t slot = row != kNoRow ? table.slots[row] : kNoRow;
    const bool in_host_memory = row != kNoRow && slot == kNoRow;
    const uint32_t entry = note(number, row, in_host_memory);
    return in_host_memory ? kInHostMemory | entry : slot;
  }
  // After fetch_uncached_rows.
  __device__ const char* row_at(const DeviceTableRef& table, uint32_t place) const {
    const bool in_host_memory = table.slots != nullptr && (place & kInHostMemory) != 0;
    return in_host_memory ? fetched(table, place & ~kInHostMemory)
                          : table.rows + place * table.stride;
  }
  __device__ const char* fetched(const DeviceTableRef& table, uint32_t entry) const {
    const uint32_t at = index[entry];
    return (at & kInHostMemory) != 0 ? table.host_rows + (at & ~kInHostMemory) * table.stride
                                     : staged + at * staged_stride;
  }

 private:
  // A place in a list for each lane that asks, by one atomic.
  __device__ static uint32_t take_places(uint32_t* count, bool asks) {
    const int lane = threadIdx.x % 32;
    const uint32_t asking = __ballot_sync(~0u, asks);
    uint32_t first = 0;
    if (lane == 0 && asking != 0) first = atomicAdd(count, static_cast<uint32_t>(__popc(asking)));
    return __shfl_sync(~0u, first, 0) + __popc(asking & ((1u << lane) - 1));
  }
};

}  // namespace emblem::cuda
