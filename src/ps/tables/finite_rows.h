// ps/tables/finite_rows.h - the rows without NaN and infinite values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/math/finite.h"

namespace emblem {

// Views of the rows that were given when all are finite, else of a copy of those that are.
class FiniteRows {
 public:
  // all_rows is [all, dim]. Both must stay while this is used.
  FiniteRows(std::span<const int64_t> all, std::span<const float> all_rows)
      : keys_(all), rows_(all_rows) {
    if (are_finite(all_rows)) return;
    const size_t dim = all_rows.size() / all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      const auto row = all_rows.subspan(i * dim, dim);
      if (!are_finite(row)) {
        if (refused_++ == 0) first_refused_ = all[i];
        continue;
      }
      own_keys_.push_back(all[i]);
      own_rows_.insert(own_rows_.end(), row.begin(), row.end());
    }
    keys_ = own_keys_;
    rows_ = own_rows_;
  }
  FiniteRows(const FiniteRows&) = delete;

  std::span<const int64_t> keys() const { return keys_; }
  std::span<const float> rows() const { return rows_; }
  uint64_t refused() const { return refused_; }
  int64_t first_refused() const { return first_refused_; }  // a key, where some were

 private:
  std::span<const int64_t> keys_;
  std::span<const float> rows_;
  std::vector<int64_t> own_keys_;
  std::vector<float> own_rows_;
  uint64_t refused_ = 0;
  int64_t first_refused_ = 0;
};

}  // namespace emblem
