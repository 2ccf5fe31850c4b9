// model/lookup/table_placement.h - which tables a GPU holds whole, and which it caches over host
// memory.
#pragma once

#include <cstdint>
#include <span>

#include "embedding/settings.h"

namespace emblem {

// What the rows of a table take, optimizer state included; if it grows, the rows that it has room
// for from the start.
int64_t row_bytes_of(const TableSettings& table);
int64_t table_bytes_of(const TableSettings& table);

// Divides `device_bytes` of device memory among tables: the small ones get all that they need, the
// others (placement kCache) share the rest by their sizes. Throws when a table that must be cached
// may grow without limit, which host memory cannot.
void place_tables(std::span<TableSettings> tables, int64_t device_bytes);

}  // namespace emblem
