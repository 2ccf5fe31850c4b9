// data/feature/bucketizer.h - values of a categorical feature become keys of its table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/feature/features.h"

namespace emblem {

// Every type of feature has the same ways:
//
//   hash_bucket_size     fg_hash(text) % size, numbers as decimal text
//   num_buckets          the integer itself, in [0, num_buckets)
//   vocab_list, _dict, _file   the word's row (config/feature/feature_settings.h: vocabulary_of)
//   boundaries           the number of boundaries that are not above the number
//   zch                  fg_hash(text) % (2^63 - 1)
//   dynamicemb           the integer itself, or fg_hash(text) % (2^63 - 1)
//
// Under FG_NONE values are keys already: integers in [0, rows of the table), any for tables that
// grow. With divide_tables, keys of other tables are taken modulo their rows.
class Bucketizer {
 public:
  enum class Way { kInRange, kHashed, kAny, kVocabulary, kBoundaries };

  Bucketizer() = default;
  // Throws Error when the vocabulary cannot be read.
  Bucketizer(const FeatureSpec& feature, const Semantics& semantics);

  Way way() const { return way_; }
  // Whether a key may be outside of the table: check_range finds out.
  bool has_range() const { return way_ == Way::kInRange; }
  bool is_in_range(int64_t key) const { return static_cast<uint64_t>(key) < size_; }
  uint64_t size() const { return size_; }
  // hash_bucket_size hashes integers as decimal text (not before semantics_version 2).
  bool hashes_as_text() const { return fg_hash_; }
  // Integers are keys as they are.
  bool keeps_integers() const {
    return way_ == Way::kInRange || (way_ == Way::kAny && !hashes_ids_);
  }

  int64_t key_of(int64_t value) const { return keeps_integers() ? value : key_of_other(value); }
  int64_t key_of(std::string_view text) const;
  // kBoundaries.
  int64_t bucket_of(float value) const;

  // The message about the first key of a bag that is outside of the table.
  std::string range_message(int64_t key) const;

  // Takes keys modulo the rows of a table that divide_tables has made smaller.
  void divide(std::span<int64_t> keys) const;

 private:
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  int64_t key_of_other(int64_t value) const;
  uint64_t modulus() const;  // modulus of fg_hash

  std::string name_;
  Way way_ = Way::kAny;
  bool fg_hash_ = true;
  bool is_encoded_ = false;  // FG_NONE
  bool hashes_ids_ = false;  // kAny: integers are hashed as text
  uint64_t size_ = 0;        // kInRange, kHashed: buckets
  uint64_t divided_ = 0;     // rows after divide_tables; 0: not divided
  std::string range_;        // "num_buckets 10", for messages
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> words_;
  int64_t row_of_others_ = 0;
  std::vector<float> boundaries_;  // ascending
};

}  // namespace emblem
