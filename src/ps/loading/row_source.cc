#include "ps/loading/row_source.h"

#include "core/log.h"
#include "ps/config/sparse_folder.h"
#include "ps/tables/filtered_rows.h"
#include "ps/tables/finite_rows.h"

namespace emblem {
namespace {

constexpr int64_t kCopyRows = 16384;  // from L3 at a time

void insert(const RowSource& from, std::span<const int64_t> keys, std::span<const float> rows,
            KvTable& to) {
  if (from.filter.takes_all() && from.only == nullptr) return to.bulk_insert(keys, rows);
  const FilteredRows taken(
      [&](int64_t key) {
        return from.filter.takes(key) && (from.only == nullptr || from.only(key));
      },
      keys, rows);
  if (!taken.keys.empty()) to.bulk_insert(taken.keys, taken.rows);
}

}  // namespace

uint64_t copy_rows(const RowSource& from, KvTable& to, const std::function<void()>& before_batch) {
  uint64_t refused = 0;
  int64_t first_refused = 0;
  const auto take = [&](std::span<const int64_t> keys, std::span<const float> rows) {
    const auto dim = static_cast<size_t>(to.dim());
    for (size_t at = 0; at < keys.size(); at += kCopyRows) {
      const size_t count = std::min<size_t>(kCopyRows, keys.size() - at);
      before_batch();
      const FiniteRows finite(keys.subspan(at, count), rows.subspan(at * dim, count * dim));
      if (finite.refused() > 0 && refused == 0) first_refused = finite.first_refused();
      refused += finite.refused();
      insert(from, finite.keys(), finite.rows(), to);
    }
  };
  if (from.l3 != nullptr) {
    from.l3->iterate(kCopyRows, take);
  } else {
    SparseFolder(from.folder, to.dim()).read(take);
  }
  to.finish_bulk();
  if (refused > 0)
    log_error(cat("table ", to.name(), ": ", refused, " rows of ", from.describe(),
                  " are NaN or infinite, first that of key ", first_refused,
                  "; they are not served and read as the default row"));
  return refused;
}

}  // namespace emblem
