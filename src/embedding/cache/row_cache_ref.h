// embedding/cache/row_cache_ref.h - a cache of rows as kernels see it.
//
// A table has sets of kWays slots; a key may lie in one set alone. A slot whose tag is not 0 holds
// the row of its key. Readers look at tags and keys and take no lock. Writers lock the set against
// each other, never change a row that has a tag, and wait until nobody can be reading a row any
// more before they use its slot again: a row leaves by losing its tag, and its slot is free once
// all epochs that had begun by then are done. Rows of the last lookup do not leave for others: of
// keys of one batch that are too many for a set, the same ones stay.
#pragma once

#include <cstdint>

#include "core/hash.h"
#include "core/host_device.h"

namespace emblem {

inline constexpr int kWays = 32;
// Slots of a full set that are kept free, so that new rows need not wait for readers of old ones.
inline constexpr int kSpareWays = 2;
inline constexpr uint32_t kNoSlot32 = 0xffffffffu;

enum class CachePolicy : uint8_t { kLru, kLfu };  // who leaves: not used for longest, least often

struct CacheEntry {
  int64_t key;
  uint64_t used;  // tick of the last lookup; of a row that just came, of the one before it
};

// Sets of a table, one behind the other.
struct CacheSets {
  uint32_t first = 0, count = 0;
};

// Which lookups and insertions are under way; written by the host. A slot that loses its tag is
// marked with `issued`, which may have been read any time since the pass that takes it away began.
struct ReadEpochs {
  uint64_t issued = 0;       // number of the newest
  uint64_t free_before = 1;  // nobody reads slots any more that have a lower mark
};

struct RowCacheRef {
  uint8_t* tags = nullptr;        // [slots]; 0: free
  CacheEntry* entries = nullptr;  // [slots]
  uint32_t* counts = nullptr;     // [slots] lookups, with kLfu
  uint64_t* retired = nullptr;    // [slots] the mark of a slot without a tag
  uint32_t* locks = nullptr;      // [sets] of writers
  char* rows = nullptr;           // [slots, row_bytes]
  const CacheSets* tables = nullptr;
  unsigned long long* tick = nullptr;           // moves on behind every lookup
  const volatile ReadEpochs* epochs = nullptr;  // where both sides reach it
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
