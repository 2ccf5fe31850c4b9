// embedding/cpu/row_bins.h - the rows of each bin of a table that evicts within bins.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "embedding/bins.h"

namespace emblem {

// Thread-compatible. Of a table that does not evict within bins: one bin, without a list of its
// rows.
class RowBins {
 public:
  explicit RowBins(const TableSettings& settings) {
    const bool evicts = settings.eviction != Eviction::kNone && settings.capacity > 0;
    if (settings.bins == 0 || !evicts) return;
    bins_ = held_bins(settings);
    rows_.resize(static_cast<size_t>(bins_.count));
  }

  bool has_lists() const { return !rows_.empty(); }
  size_t count() const { return static_cast<size_t>(bins_.count); }
  size_t of(int64_t key) const { return bins_.of(key); }
  std::vector<uint32_t>& rows(size_t bin) { return rows_[bin]; }
  const std::vector<uint32_t>& rows(size_t bin) const { return rows_[bin]; }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const auto& rows : rows_)
      bytes += static_cast<int64_t>(rows.capacity() * sizeof(uint32_t));
    return bytes;
  }

  // Makes add of this key succeed.
  void make_room(int64_t key) {
    if (!has_lists()) return;
    std::vector<uint32_t>& rows = rows_[of(key)];
    if (rows.size() == rows.capacity()) rows.reserve(2 * rows.size() + 1);
  }
  void add(int64_t key, uint32_t row) {
    if (has_lists()) rows_[of(key)].push_back(row);
  }
  // Searches the bin.
  void remove(int64_t key, uint32_t row) {
    if (has_lists()) std::erase(rows_[of(key)], row);
  }
  void clear() {
    for (auto& rows : rows_) rows.clear();
  }

 private:
  HeldBins bins_;
  std::vector<std::vector<uint32_t>> rows_;  // by bin
};

}  // namespace emblem
