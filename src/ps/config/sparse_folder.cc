#include "ps/config/sparse_folder.h"

#include <algorithm>
#include <bit>
#include <filesystem>

#include "core/files/file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read as memory holds them");

constexpr int64_t kBatchBytes = 8 << 20;

uint64_t size_of_file(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (!error) return size;
  throw Error(ErrorCode::kNotFound, cat(path, ": ", error.message(),
                                        "; a sparse model is a folder with the files key and "
                                        "emb_vector"));
}

}  // namespace

SparseFolder::SparseFolder(std::string folder, int64_t dim)
    : folder_(std::move(folder)), dim_(dim) {
  EMBLEM_REQUIRE(dim >= 1, folder_, ": rows of ", dim, " floats; at least 1 is needed");
  const uint64_t key_bytes = size_of_file(folder_ + "/key");
  const uint64_t row_bytes = size_of_file(folder_ + "/emb_vector");
  if (key_bytes % sizeof(int64_t) != 0) {
    throw Error(ErrorCode::kCorruption, cat(folder_, ": key has ", key_bytes,
                                            " bytes, which is not a whole number of 8-byte keys"));
  }
  rows_ = static_cast<int64_t>(key_bytes / sizeof(int64_t));
  const uint64_t wanted = static_cast<uint64_t>(rows_) * static_cast<uint64_t>(dim) * sizeof(float);
  if (row_bytes != wanted) {
    throw Error(ErrorCode::kCorruption, cat(folder_, ": emb_vector has ", row_bytes, " bytes, but ",
                                            rows_, " keys of dimension ", dim, " need ", wanted));
  }
}

std::string SparseFolder::fingerprint() const {
  std::string text = cat(folder_, " dim ", dim_);
  for (const char* name : {"/key", "/emb_vector"}) {
    const std::string path = folder_ + name;
    text += cat(" ", std::filesystem::file_size(path), "@",
                std::filesystem::last_write_time(path).time_since_epoch().count());
  }
  return text;
}

void SparseFolder::read(
    const std::function<void(std::span<const int64_t>, std::span<const float>)>& take) const {
  const MappedFile keys(folder_ + "/key"), rows(folder_ + "/emb_vector");
  if (keys.bytes().size() != static_cast<size_t>(rows_) * sizeof(int64_t) ||
      rows.bytes().size() != static_cast<size_t>(rows_ * dim_) * sizeof(float)) {
    throw Error(ErrorCode::kCorruption, folder_ + ": the files changed while they were read");
  }
  const auto* key = reinterpret_cast<const int64_t*>(keys.bytes().data());
  const auto* row = reinterpret_cast<const float*>(rows.bytes().data());
  const int64_t each = std::max<int64_t>(1, kBatchBytes / (8 + dim_ * 4));
  for (int64_t begin = 0; begin < rows_; begin += each) {
    const auto count = static_cast<size_t>(std::min(each, rows_ - begin));
    take({key + begin, count}, {row + begin * dim_, count * static_cast<size_t>(dim_)});
  }
}

}  // namespace emblem
