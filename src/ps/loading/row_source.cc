#include "ps/loading/row_source.h"

#include "ps/config/sparse_folder.h"

namespace emblem {
namespace {

constexpr int64_t kCopyRows = 16384;  // from L3 at a time

}  // namespace

void copy_rows(const RowSource& from, KvTable& to, const std::function<void()>& before_batch) {
  const auto take = [&](std::span<const int64_t> keys, std::span<const float> rows) {
    const auto dim = static_cast<size_t>(to.dim());
    for (size_t at = 0; at < keys.size(); at += kCopyRows) {
      const size_t count = std::min<size_t>(kCopyRows, keys.size() - at);
      before_batch();
      to.bulk_insert(keys.subspan(at, count), rows.subspan(at * dim, count * dim));
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
