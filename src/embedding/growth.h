// embedding/growth.h - how many rows a GPU table without a capacity has memory for.
#pragma once

#include <algorithm>
#include <cstdint>

namespace emblem {

inline constexpr int64_t kFirstDeviceRows = 1 << 16;  // at least, from the beginning

// The new size of a table with `rows` rows that needs `wanted`, which are more.
inline int64_t grown_rows(int64_t rows, int64_t wanted) {
  return std::max(wanted, rows + rows / 2);
}

// When it has taken `keys` keys, a few at a time.
inline int64_t device_rows_for(int64_t initial_capacity, int64_t keys) {
  int64_t rows = std::max(initial_capacity, kFirstDeviceRows);
  while (rows < keys) rows = grown_rows(rows, rows + 1);
  return rows;
}

}  // namespace emblem
