// ps/tables/table_cache.h - how a served table notifies a cache of its rows of changes.
#pragma once

#include <cstdint>
#include <span>

namespace emblem {

class TableCache {
 public:
  virtual ~TableCache() = default;
  // Rows [keys, dim] that have changed below: those that are in the cache change too. Thread-safe.
  virtual void update(std::span<const int64_t> keys, std::span<const float> rows) = 0;
  // Reads all rows that are in the cache again from below.
  virtual void refresh() = 0;
};

}  // namespace emblem
