// embedding/bins.h - bins make what a table evicts independent of the placement of its keys.
//
// A dynamic table that evicts rows, or limits the keys that wait for admission, compares keys with
// each other. Of a table that is divided among ranks, only keys of one bin are compared: a bin is a
// range of parts, all bins have equal shares of the limits, and a rank holds whole bins. What is
// left of a limit, less than the number of bins, is not used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/settings.h"

namespace emblem {

inline constexpr int32_t kMostBins = 64;
// Smaller tables have fewer bins: keys are spread by a hash, so a small bin may get many more of a
// batch than its share.
inline constexpr int64_t kLeastBinKeys = 256;

// TableSettings::bins of a table that ranks hold, from the settings of all of it: a power of two; 0
// if it has no limits.
int32_t bins_of_limits(const TableSettings& whole);

// The bins of the parts that a table holds.
struct HeldBins {
  int32_t parts_each = kParts;
  int32_t first = 0;
  int32_t count = 1;

  // The bin of a key, counted from the first that is held.
  EMBLEM_HD size_t of(int64_t key) const {
    return count == 1 ? 0 : static_cast<size_t>(part_of_hashed_key(key) / parts_each - first);
  }
};
HeldBins held_bins(const TableSettings& settings);

// Whether a range of parts is whole bins.
bool is_whole_bins(PartRange held, int32_t bins);

}  // namespace emblem
