// ps/tables/filtered_rows.h - of some rows, those of a range of parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "embedding/parts.h"

namespace emblem {

struct FilteredRows {
  // rows is [all, dim].
  FilteredRows(const PartFilter& filter, std::span<const int64_t> all,
               std::span<const float> all_rows) {
    const size_t dim = all.empty() ? 0 : all_rows.size() / all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (!filter.takes(all[i])) continue;
      keys.push_back(all[i]);
      const auto row = all_rows.subspan(i * dim, dim);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }

  std::vector<int64_t> keys;
  std::vector<float> rows;
};

}  // namespace emblem
