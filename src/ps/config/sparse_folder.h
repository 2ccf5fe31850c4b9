// ps/config/sparse_folder.h - a table's rows in the files that HPS calls a sparse model and
// checkpoints hold for each table: `key` (int64 x rows) and `emb_vector` (float32 x rows x dim),
// without headers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace emblem {

// Throws kNotFound for missing files, kCorruption when a size does not fit.
class SparseFolder {
 public:
  SparseFolder(std::string folder, int64_t dim);

  int64_t rows() const { return rows_; }
  // Changes when the files are replaced by others: sizes and times of both.
  std::string fingerprint() const;
  // All rows in the order of the files, a bounded number at a time.
  void read(const std::function<void(std::span<const int64_t> keys, std::span<const float> rows)>&
                take) const;

 private:
  std::string folder_;
  int64_t dim_;
  int64_t rows_ = 0;
};

}  // namespace emblem
