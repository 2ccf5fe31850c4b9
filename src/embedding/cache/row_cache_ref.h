// embedding/cache/row_cache_ref.h - a cache of rows as kernels see it.
//
// A table has sets of kWays slots; a key can be in one set only. A slot whose tag is not 0 holds
// the row of its key. Readers compare tags and keys and take no lock. Writers lock the set against
// each other, never change a row that has a tag, and reuse a slot only when no reader can use its
// row any more: a row is retired by clearing its tag, and its slot is free once all reads that had
// begun by then have ended. Rows of the last lookup are not evicted for others: when a batch has
// too many keys for a set, the ones that are cached first stay.
#pragma once

#include <cstdint>

#include "core/device/host_device.h"
#include "core/math/hash.h"

namespace emblem {

inline constexpr int kWays = 32;
// Slots per set that are kept free, so that new rows need not wait for readers of old ones.
inline constexpr int kSpareWays = 2;
inline constexpr uint32_t kNoSlot32 = 0xffffffffu;

enum class CachePolicy : uint8_t { kLru, kLfu };

struct RowCacheEntry {
  int64_t key;
  uint64_t used;  // tick of the last lookup; for a new row, that of the lookup before
};

// The sets of a table, which are contiguous.
struct CacheSets {
  uint32_t first = 0, count = 0;
};

// Which reads are running; written by the host. A slot that is retired is marked with `issued`,
// which may have been read at any time since the pass that retires it began.
struct ReadEpochs {
  uint64_t issued = 0;       // number of the newest
  uint64_t free_before = 1;  // retired slots with a lower mark are free
};

struct RowCacheRef {
  uint8_t* tags = nullptr;           // [slots]; 0: no row
  RowCacheEntry* entries = nullptr;  // [slots]
  uint32_t* counts = nullptr;        // [slots] lookups, with kLfu
  uint64_t* retired = nullptr;       // [slots] the mark of a slot without a tag
  uint32_t* locks = nullptr;         // [sets] of writers
  char* rows = nullptr;              // [slots, row_bytes]
  const CacheSets* tables = nullptr;
  unsigned long long* tick = nullptr;           // incremented after every lookup
  const volatile ReadEpochs* epochs = nullptr;  // in memory that host and GPU access
  int64_t row_bytes = 0;                        // a multiple of 16
  CachePolicy policy = CachePolicy::kLru;

  EMBLEM_HD static uint64_t hash(int64_t key) { return mix64(static_cast<uint64_t>(key)); }
  EMBLEM_HD static uint8_t tag(uint64_t hash) {
    const auto bits = static_cast<uint8_t>(hash >> 56);
    return bits == 0 ? uint8_t{1} : bits;
  }
  EMBLEM_HD uint32_t set_of(uint32_t table, uint64_t hash) const {
    const CacheSets sets = tables[table];
    return sets.first + static_cast<uint32_t>((hash & 0xffffffffu) * sets.count >> 32);
  }
  EMBLEM_HD char* row(uint32_t slot) const { return rows + static_cast<int64_t>(slot) * row_bytes; }
};

}  // namespace emblem
