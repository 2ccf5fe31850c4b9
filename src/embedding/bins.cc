#include "embedding/bins.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace emblem {

int32_t bins_of_limits(const TableSettings& whole) {
  if (whole.kind == TableKind::kStatic) return 0;
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t least = kNone;
  if (whole.eviction != Eviction::kNone && whole.capacity > 0) least = whole.capacity;
  if (whole.admission_threshold > 1 && whole.most_waiting() > 0)
    least = std::min(least, whole.most_waiting());
  if (least == kNone) return 0;
  const auto bins = std::bit_floor(static_cast<uint64_t>(least / kLeastBinKeys));
  return static_cast<int32_t>(std::clamp<uint64_t>(bins, 1, kMostBins));
}

HeldBins held_bins(const TableSettings& settings) {
  if (settings.bins == 0) return {};
  const int32_t each = kParts / settings.bins;
  return {each, settings.held.first / each, settings.held.count() / each};
}

bool is_whole_bins(PartRange held, int32_t bins) {
  const int32_t each = kParts / bins;
  return held.count() == 0 || (held.first % each == 0 && held.last % each == 0);
}

}  // namespace emblem
