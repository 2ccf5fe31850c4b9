// embedding/cache/cached_rows.cuh - a batch of CachedRows as its kernels see it.
#pragma once

#include "embedding/cache/cached_rows.h"
#include "embedding/cache/row_cache.cuh"
#include "embedding/cuda/lookup/by_address.cuh"
#include "embedding/cuda/table/warp_append.cuh"

namespace emblem::cuda {

struct BackingTableRef {
  Initializer missing;
  uint64_t seed;
  const char* rows;
  int64_t count;
  int64_t dim;
};

// Counters in device memory; zero before and after a pass, except for the last member.
struct MissCounters {
  uint32_t distinct, lookups, absent;
  uint32_t bins[kAddressBins];
  ReadEpochs epochs;  // when the misses of a pass began to be handled
};

struct CachedBatch {
  RowCacheRef cache;
  KeysOnDevice input;
  uint32_t capacity;  // rows
  int32_t features;
  int32_t table_count;
  const int* feature_tables;
  const BackingTableRef* tables;
  const void** addresses;
  const char* zeros;  // a row

  // Keys that are not in the cache: a hash map of positions + 1, at most half full, zero between
  // passes. Positions of equal keys of a table share an entry.
  uint32_t* map;
  uint32_t map_mask;
  uint32_t* entries;   // [positions] of the map, the distinct ones
  uint32_t* sorted;    // the same, sorted by address in host memory
  uint32_t* index;     // [map] the number of the staged row
  uint2* occurrences;  // [positions] address, entry
  MissCounters* counters;
  uint32_t* table_misses;  // [tables] lookups; zero between passes
  char* staged;
  int64_t* staged_keys;
  int32_t* staged_tables;
  DType dtype;

  // The report in host memory.
  MissReport* report;
  uint32_t* reported_misses;  // [tables]
  int64_t* missing_keys;
  int32_t* missing_tables;

  __device__ int table_of(uint32_t position) const { return feature_tables[position / capacity]; }
  __device__ bool in_host_memory(int table, int64_t key) const {
    return static_cast<uint64_t>(key) < static_cast<uint64_t>(tables[table].count);
  }

  // Adds the keys of the lanes that `miss` to the map. Whole warp, of one table.
  __device__ void add_misses(uint32_t position, int table, int64_t key, uint32_t address,
                             bool miss) const {
    const uint64_t hash =
        mix64(static_cast<uint64_t>(key) + static_cast<uint64_t>(table) * 0x9e3779b97f4a7c15ull);
    uint32_t at = static_cast<uint32_t>(hash) & map_mask;
    bool first = false;
    for (; miss; at = (at + 1) & map_mask) {
      uint32_t seen = __ldcg(&map[at]);
      if (seen == 0) seen = atomicCAS(&map[at], 0u, position + 1);
      first = seen == 0;
      if (first || (input.keys[seen - 1] == key && table_of(seen - 1) == table)) break;
    }
    const uint32_t number = reserve_entries(&counters->distinct, first);
    if (first) entries[number] = at;
    const uint32_t occurrence = reserve_entries(&counters->lookups, miss);
    if (miss) occurrences[occurrence] = {address, at};
    const uint32_t missed = __ballot_sync(~0u, miss);
    if (threadIdx.x % 32 == 0)
      atomicAdd(&table_misses[table], static_cast<uint32_t>(__popc(missed)));
    if (tables[table].rows == nullptr) return;  // whether a key has a row is not known here
    const uint32_t absent = __ballot_sync(~0u, miss && !in_host_memory(table, key));
    if (threadIdx.x % 32 == 0 && absent != 0)
      atomicAdd(&counters->absent, static_cast<uint32_t>(__popc(absent)));
  }
};

}  // namespace emblem::cuda
