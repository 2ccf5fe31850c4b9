// embedding/row_share.h - where a static table that holds some of its parts has the row of a key.
//
// Keys of a block of kParts have kParts different parts, so a holder of n parts has n rows per
// block, in the order of parts. Rows of keys beyond the last, in the last block, are never used.
#pragma once

#include <cstdint>

#include "embedding/parts.h"

namespace emblem {

EMBLEM_HD inline int64_t local_row(int64_t key, PartRange held) {
  return (key >> kPartBits) * (held.last - held.first) + (part_of_static_key(key) - held.first);
}

// The key of a local row. Reversing bits is its own inverse.
EMBLEM_HD inline int64_t key_of_local_row(int64_t row, PartRange held) {
  const int64_t each = held.last - held.first;
  return (row / each) * kParts + part_of_static_key(held.first + row % each);
}

// Rows in memory for a table of `rows` keys.
inline int64_t local_rows(int64_t rows, PartRange held) {
  if (held.is_everything()) return rows;
  return (rows + kParts - 1) / kParts * held.count();
}

// Keys below `rows` whose part is held.
inline int64_t keys_held(int64_t rows, PartRange held) {
  if (held.is_everything()) return rows;
  int64_t keys = rows / kParts * held.count();
  for (int64_t key = 0; key < rows % kParts; ++key) keys += held.contains(part_of_static_key(key));
  return keys;
}

}  // namespace emblem
