// ps/tables/table_fetch.h - rows from the tiers of several tables at once.
#pragma once

#include <cstdint>
#include <span>

#include "ps/tables/served_table.h"

namespace emblem {

// One table's part. Keys should be different.
struct TableFetch {
  ServedTable* table = nullptr;
  std::span<const int64_t> keys;
  std::span<float> rows;     // [keys, dim]
  std::span<uint8_t> found;  // 1: rows has it; 0: neither L2 nor L3 does
};

// Asks L2 for all rows, then L3 for those that are missing. Tables whose L2 is the same Redis cost
// one round trip to each of its nodes together. Throws kUnavailable when a table's rows cannot be
// had from either.
void fetch_tables(std::span<const TableFetch> fetches);

}  // namespace emblem
