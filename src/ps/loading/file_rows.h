// ps/loading/file_rows.h - rows of a model's files by key, without copying them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "ps/tables/served_table.h"

namespace emblem {

// Reads the keys once. The files of a checkpoint are in order and searched as they are; for others
// it keeps an index of the keys that it covers, 16 bytes each.
class FileRows final : public RowFallback {
 public:
  using Covers = std::function<bool(int64_t key)>;

  // The files of a sparse folder (ps/config/sparse_folder.h). Throws kOutOfMemory when the index
  // would have more than kMostIndexed keys.
  FileRows(const std::string& folder, int64_t dim, Covers covers);

  bool covers(int64_t key) const override { return covers_(key); }
  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override;

  static constexpr size_t kMostIndexed = size_t{1} << 27;  // 2 GiB

 private:
  const float* find(int64_t key) const;  // null: no row

  const size_t dim_;
  const Covers covers_;
  const MappedFile key_file_, row_file_;
  std::span<const int64_t> keys_;  // in the order of the file
  bool is_sorted_ = false;
  std::vector<std::pair<int64_t, size_t>> index_;  // (key, row), by key; where not sorted
};

}  // namespace emblem
