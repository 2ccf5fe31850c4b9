#include "ps/loading/row_source.h"

#include "ps/config/sparse_folder.h"
#include "ps/tables/filtered_rows.h"

namespace emblem {
namespace {

constexpr int64_t kCopyRows = 16384;  // from L3 at a time

void insert(const PartFilter& filter, std::span<const int64_t> keys, std::span<const float> rows,
            KvTable& to) {
  if (filter.takes_all()) return to.bulk_insert(keys, rows);
  const FilteredRows taken(filter, keys, rows);
  to.bulk_insert(taken.keys, taken.rows);
}

}  // namespace

void copy_rows(const RowSource& from, KvTable& to, const std::function<void()>& before_batch) {
  const auto take = [&](std::span<const int64_t> keys, std::span<const float> rows) {
    const auto dim = static_cast<size_t>(to.dim());
    for (size_t at = 0; at < keys.size(); at += kCopyRows) {
      const size_t count = std::min<size_t>(kCopyRows, keys.size() - at);
      before_batch();
      insert(from.filter, keys.subspan(at, count), rows.subspan(at * dim, count * dim), to);
    }
  };
  if (from.l3 != nullptr) {
    from.l3->iterate(kCopyRows, take);
  } else {
    SparseFolder(from.folder, to.dim()).read(take);
  }
  to.finish_bulk();
}

}  // namespace emblem
