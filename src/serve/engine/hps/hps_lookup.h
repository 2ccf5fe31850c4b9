// serve/engine/hps/hps_lookup.h - the rows of a request to backend hps, one table after the other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/memory/view.h"
#include "ps/tables/served_table.h"

namespace emblem {

// Used by one thread at a time.
class HpsLookup {
 public:
  virtual ~HpsLookup() = default;

  // Writes the rows of keys[t] in table t to `to`, for all tables in turn; keys without a row read
  // as the default row of the table. Throws kUnavailable.
  virtual void copy_rows(std::span<const View<const int64_t>> keys, float* to) = 0;
};

// A lookup on the CPU. The tables are borrowed.
std::unique_ptr<HpsLookup> make_host_lookup(std::vector<ServedTable*> tables);

}  // namespace emblem
