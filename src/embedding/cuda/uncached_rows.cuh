// embedding/cuda/uncached_rows.cuh - the rows of a batch that are in host memory alone: each is noted once,
// with the table it belongs to, and nothing in the table changes.
#pragma once

#include "embedding/cuda/by_address.cuh"
#include "embedding/cuda/device_table_ref.cuh"

namespace emblem::cuda {

// In device memory; zero before and after.
struct FarCounters {
  uint32_t rows;         // distinct
  uint32_t occurrences;  // that wait for their row
  uint32_t places[kPlaces];
};

struct FarRows {
  // A hash map of the batch: 1 << 63 | table << 32 | row. At most half full; zero before and after.
  unsigned long long* map = nullptr;
  uint32_t map_mask = 0;
  uint32_t *entries = nullptr, *sorted = nullptr;  // [positions] of the map: the distinct rows
  uint2* occurrences = nullptr;                    // [positions] position, entry
  uint32_t* index = nullptr;  // [map] a fetched row's number in `staged`, or kFar | row
  char* staged = nullptr;     // [staged_rows] weights
  int64_t staged_stride = 0;
  uint32_t staged_rows = 0;
  FarCounters* counters = nullptr;

  // Tables with a cache have fewer rows, the map fewer entries.
  static constexpr uint32_t kFar = 1u << 31;

  __device__ static uint32_t table_of(unsigned long long noted) {
    return static_cast<uint32_t>(noted >> 32) & ~kFar;
  }
  __device__ static uint32_t row_of(unsigned long long noted) {
    return static_cast<uint32_t>(noted);
  }

  // Notes the rows of the lanes with `is_far`; returns the entry. Whole warp.
  __device__ uint32_t note(uint32_t table, uint32_t row, bool is_far) const {
    if (!__any_sync(~0u, is_far)) return 0;
    const auto noted = 1ull << 63 | static_cast<unsigned long long>(table) << 32 | row;
    uint32_t at = static_cast<uint32_t>(mix64(noted)) & map_mask;
    bool first = false;
    for (; is_far; at = (at + 1) & map_mask) {
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
  __device__ void wait(uint32_t position, uint32_t entry, bool is_far) const {
    if (!__any_sync(~0u, is_far)) return;
    const uint32_t place = take_places(&counters->occurrences, is_far);
    if (is_far) occurrences[place] = {position, entry};
  }

  // Where a row is, for row_at: the number of its slot, or kFar | entry. Whole warp; kNoRow for
  // lanes without a row.
  __device__ uint32_t place(const DeviceTableRef& table, uint32_t number, uint32_t row) const {
    if (table.slots == nullptr) return row;
    const uint32_t slot = row != kNoRow ? table.slots[row] : kNoRow;
    const bool is_far = row != kNoRow && slot == kNoRow;
    const uint32_t entry = note(number, row, is_far);
    return is_far ? kFar | entry : slot;
  }
  // After fetch_far_rows.
  __device__ const char* row_at(const DeviceTableRef& table, uint32_t place) const {
    const bool is_far = table.slots != nullptr && (place & kFar) != 0;
    return is_far ? fetched(table, place & ~kFar) : table.rows + place * table.stride;
  }
  __device__ const char* fetched(const DeviceTableRef& table, uint32_t entry) const {
    const uint32_t at = index[entry];
    return (at & kFar) != 0 ? table.host_rows + (at & ~kFar) * table.stride
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
