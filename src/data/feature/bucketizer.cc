#include "data/feature/bucketizer.h"

#include <algorithm>
#include <charconv>

#include "core/math/decimal_hash.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// TorchEasyRec's modulus for tables that take any key.
constexpr uint64_t kAnyKey = (uint64_t{1} << 63) - 1;

bool has_vocabulary(const FeatureSettings& settings) {
  if (settings.type == FeatureType::kTokenize) return false;  // tokens are rows
  return !settings.vocab_list.empty() || !settings.vocab_dict.empty() ||
         !settings.vocab_file.empty();
}

std::string setting_text(const FeatureSettings& settings, int64_t rows) {
  if (settings.num_buckets) return cat("num_buckets ", *settings.num_buckets);
  if (settings.hash_bucket_size) return cat("hash_bucket_size ", *settings.hash_bucket_size);
  if (!settings.boundaries.empty()) return cat(settings.boundaries.size(), " boundaries");
  return cat(rows, " rows");
}

}  // namespace

Bucketizer::Bucketizer(const FeatureSpec& feature, const Semantics& semantics)
    : name_(feature.name),
      fg_hash_(semantics.fg_hash),
      is_encoded_(semantics.fg_mode == config::FG_NONE) {
  const FeatureSettings& settings = feature.settings;
  const bool grows = settings.zch.has_value() || settings.dynamicemb.has_value();
  if (!grows && feature.rows > 0) {
    way_ = Way::kInRange;
    size_ = static_cast<uint64_t>(feature.rows);
    range_ = setting_text(settings, feature.rows);
    if (feature.table_divisor > 1) divided_ = static_cast<uint64_t>(table_rows(feature));
  }
  if (is_encoded_) return;
  if (grows) {
    hashes_ids_ = settings.zch.has_value();
  } else if (settings.hash_bucket_size) {
    way_ = Way::kHashed;
  } else if (has_vocabulary(settings)) {
    way_ = Way::kVocabulary;
    const Vocabulary vocabulary = vocabulary_of(settings, feature.sequence >= 0);
    row_of_others_ = static_cast<int64_t>(vocabulary.row_of_others);
    for (const auto& [word, row] : vocabulary.rows_of_words)
      words_.emplace(word, static_cast<int64_t>(row));
  } else if (!settings.boundaries.empty()) {
    way_ = Way::kBoundaries;
    boundaries_ = settings.boundaries;
  }
}

int64_t Bucketizer::key_of_other(int64_t value) const {
  if (way_ == Way::kBoundaries) return bucket_of(static_cast<float>(value));
  if (way_ == Way::kHashed && !fg_hash_)
    return static_cast<int64_t>(mix64(static_cast<uint64_t>(value)) % size_);
  if (way_ != Way::kVocabulary && fg_hash_)
    return static_cast<int64_t>(fg_hash_decimal(value) % modulus());
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return key_of(std::string_view(digits, static_cast<size_t>(end - digits)));
}

uint64_t Bucketizer::modulus() const { return way_ == Way::kHashed ? size_ : kAnyKey; }

int64_t Bucketizer::key_of(std::string_view text) const {
  if (way_ == Way::kVocabulary) {
    const auto found = words_.find(text);
    return found == words_.end() ? row_of_others_ : found->second;
  }
  if (fg_hash_) return static_cast<int64_t>(fg_hash(text) % modulus());
  const uint64_t hash = hash_string(text);
  return static_cast<int64_t>(way_ == Way::kHashed ? hash % size_ : hash);
}

int64_t Bucketizer::bucket_of(float value) const {
  return std::upper_bound(boundaries_.begin(), boundaries_.end(), value) - boundaries_.begin();
}

std::string Bucketizer::range_message(int64_t key) const {
  const bool wants_fg = is_encoded_ && !range_.starts_with("num_buckets");
  return cat("feature ", name_, ": id ", key, " is outside a static table of ", range_,
             " (expected 0 to ", size_ - 1, ")",
             wants_fg
                 ? "; fg_mode FG_NONE takes ids as they are, set data_config { fg_mode: FG_DAG "
                   "} for values to be put into buckets"
                 : "");
}

void Bucketizer::divide(std::span<int64_t> keys) const {
  if (divided_ == 0) return;
  for (int64_t& key : keys) key = static_cast<int64_t>(static_cast<uint64_t>(key) % divided_);
}

}  // namespace emblem
