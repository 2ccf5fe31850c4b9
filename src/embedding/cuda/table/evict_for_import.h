// embedding/cuda/table/evict_for_import.h - limits the rows and the waiting keys of a key space
// whose content comes from outside.
#pragma once

#include <cstdint>

#include "core/device/context.h"

namespace emblem::cuda {

struct KeySpace;

inline constexpr uint32_t kNotImported = 0xffffffffu;

// Different keys, in device memory.
struct ImportedKeys {
  const int64_t* keys;
  const int64_t* scores;  // null: all 0
  uint32_t count;
  uint32_t* rows;     // kNoRow: a new key
  uint32_t* tickets;  // tickets of new keys (KeySpace::take_ticket)
};

// In bins that have more than `limit` keys with the new ones: evicts the lowest and numbers the
// others again. A new key that is among the lowest gets kNotImported as its ticket, and so does
// one whose row was evicted.
void evict_for_import(const Context& context, const KeySpace& keys, int64_t limit,
                      const ImportedKeys& imported);

// Drops the least frequent keys of bins that have more than `most`.
void prune_imported(const Context& context, const KeySpace& waiting, int64_t most);

}  // namespace emblem::cuda
