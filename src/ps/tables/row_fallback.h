// ps/tables/row_fallback.h - where rows come from while the tier that should have them is filled
// again and no tier below has them.
#pragma once

#include <cstdint>
#include <span>

namespace emblem {

// Thread-safe.
class RowFallback {
 public:
  virtual ~RowFallback() = default;

  // Whether it can say what the row of a key is, or that there is none.
  virtual bool covers(int64_t key) const = 0;
  // As KvTable::fetch; of keys that it covers.
  virtual int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                        std::span<uint8_t> found) const = 0;
};

}  // namespace emblem
