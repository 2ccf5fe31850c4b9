// ps/tables/filtered_rows.h - the rows that have certain keys.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "embedding/parts.h"

namespace emblem {

struct FilteredRows {
  // Rows of a range of parts. rows is [all, dim].
  FilteredRows(const PartFilter& filter, std::span<const int64_t> all,
               std::span<const float> all_rows)
      : FilteredRows([&](int64_t key) { return filter.takes(key); }, all, all_rows) {}
  // Rows whose keys it takes.
  template <class Takes>
  requires std::predicate<Takes, int64_t> FilteredRows(const Takes& takes,
                                                       std::span<const int64_t> all,
                                                       std::span<const float> all_rows) {
    const size_t dim = all.empty() ? 0 : all_rows.size() / all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (!takes(all[i])) continue;
      keys.push_back(all[i]);
      const auto row = all_rows.subspan(i * dim, dim);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }

  std::vector<int64_t> keys;
  std::vector<float> rows;
};

}  // namespace emblem
