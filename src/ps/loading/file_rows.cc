#include "ps/loading/file_rows.h"

#include <algorithm>
#include <cstring>

#include "core/math/finite.h"
#include "emblem/error.h"
#include "ps/config/sparse_folder.h"

namespace emblem {

FileRows::FileRows(const std::string& folder, int64_t dim, Covers covers)
    : dim_(static_cast<size_t>(dim)),
      covers_(std::move(covers)),
      key_file_(folder + "/key"),
      row_file_(folder + "/emb_vector") {
  const auto rows = static_cast<size_t>(SparseFolder(folder, dim).rows());  // checks the sizes
  if (key_file_.bytes().size() != rows * sizeof(int64_t) ||
      row_file_.bytes().size() != rows * dim_ * sizeof(float))
    throw Error(ErrorCode::kCorruption, folder + ": the files changed while they were read");
  keys_ = {reinterpret_cast<const int64_t*>(key_file_.bytes().data()), rows};
  is_sorted_ = std::is_sorted(keys_.begin(), keys_.end());
  if (is_sorted_) return;
  for (size_t row = 0; row < rows; ++row) {
    if (!covers_(keys_[row])) continue;
    if (index_.size() == kMostIndexed)
      throw Error(ErrorCode::kOutOfMemory, cat(folder, ": more than ", kMostIndexed,
                                               " keys in no order are too many for an index"));
    index_.emplace_back(keys_[row], row);
  }
  std::sort(index_.begin(), index_.end());
}

// The last of equal keys counts, as where files are loaded.
const float* FileRows::find(int64_t key) const {
  size_t row = 0;
  if (is_sorted_) {
    const auto after = std::upper_bound(keys_.begin(), keys_.end(), key);
    if (after == keys_.begin() || *(after - 1) != key) return nullptr;
    row = static_cast<size_t>(after - keys_.begin()) - 1;
  } else {
    const auto after = std::upper_bound(index_.begin(), index_.end(), std::pair(key, keys_.size()));
    if (after == index_.begin() || (after - 1)->first != key) return nullptr;
    row = (after - 1)->second;
  }
  const auto* floats = reinterpret_cast<const float*>(row_file_.bytes().data()) + row * dim_;
  return are_finite({floats, dim_}) ? floats : nullptr;
}

int64_t FileRows::fetch(std::span<const int64_t> keys, std::span<float> rows,
                        std::span<uint8_t> found) const {
  int64_t hits = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const float* row = find(keys[i]);
    found[i] = row != nullptr ? 1 : 0;
    if (row == nullptr) continue;
    std::memcpy(rows.data() + i * dim_, row, dim_ * sizeof(float));
    ++hits;
  }
  return hits;
}

}  // namespace emblem
