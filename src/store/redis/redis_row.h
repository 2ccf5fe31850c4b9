// store/redis/redis_row.h - a row as the value of a field in Redis: its floats, as HPS writes them,
// and after them, unless that is off, the byte 1 and a checksum of key and floats. The odd size
// distinguishes rows with a checksum from those without, whatever their dimension.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/math/checksum.h"
#include "core/math/finite.h"
#include "emblem/error.h"

namespace emblem {

class RedisRow {
 public:
  enum class Checksums { kNone, kWritten };

  RedisRow(int64_t dim, Checksums checksums)
      : bytes_(static_cast<size_t>(dim) * sizeof(float)), checksums_(checksums) {}

  // `row` has dim floats. Valid until the next call with the same `scratch`.
  std::string_view encode(int64_t key, const float* row, std::string& scratch) const {
    const std::string_view floats(reinterpret_cast<const char*>(row), bytes_);
    if (checksums_ == Checksums::kNone) return floats;
    const uint64_t checksum = checksum_of(key, floats);
    scratch.assign(floats);
    scratch.push_back(kKind);
    scratch.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    return scratch;
  }

  bool has_size(std::string_view value) const {
    return value.size() == bytes_ || value.size() == bytes_ + kSuffix;
  }

  // Copies the floats of a value that is a row, with or without a checksum, to `row`. Otherwise
  // returns what is wrong.
  std::string decode(int64_t key, std::string_view value, float* row) const {
    if (!has_size(value))
      return cat("has ", value.size(), " bytes, but its dimension needs ", bytes_, " or ",
                 bytes_ + kSuffix);
    const std::string_view floats = value.substr(0, bytes_);
    if (value.size() > bytes_) {
      uint64_t checksum = 0;
      std::memcpy(&checksum, value.data() + bytes_ + 1, sizeof checksum);
      if (value[bytes_] != kKind || checksum != checksum_of(key, floats))
        return "does not have its checksum";
    }
    std::memcpy(row, floats.data(), bytes_);
    if (!are_finite({row, bytes_ / sizeof(float)})) return "is NaN or infinite";
    return {};
  }

 private:
  static constexpr char kKind = 1;
  static constexpr size_t kSuffix = 1 + sizeof(uint64_t);

  static uint64_t checksum_of(int64_t key, std::string_view floats) {
    Checksum checksum;
    checksum.add(&key, sizeof key);
    checksum.add(floats.data(), floats.size());
    return checksum.value();
  }

  size_t bytes_;
  Checksums checksums_;
};

}  // namespace emblem
