#include "data/feature/feature_rules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/hash.h"
#include "data/feature/row_gather.h"
#include "data/format/decoder.h"
#include "data/format/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string_view text_at(const Column& column, size_t at) {
  const size_t begin = at == 0 ? 0 : column.text_ends[at - 1];
  return std::string_view(column.text).substr(begin, column.text_ends[at] - begin);
}

bool any_missing_text(const Column& column) {
  uint32_t before = 0;
  for (const uint32_t end : column.text_ends) {
    if (end == before) return true;
    before = end;
  }
  return false;
}

bool any_missing(const Column& column) {
  switch (column.type) {
    case ColumnType::kInt64:
      return !column.missing.empty();
    case ColumnType::kText:
      return any_missing_text(column);
    case ColumnType::kFloat:
      break;
  }
  return true;  // decided value by value
}

}  // namespace

IdFeatureRule IdFeatureRule::of(const FeatureSpec& feature, const Semantics& semantics, int column,
                                ColumnType type) {
  IdFeatureRule rule;
  rule.name = feature.name;
  rule.column = column;
  rule.sparse_index = feature.sparse_index;
  rule.semantics_ = semantics;
  rule.choose_keys(feature);
  const config::IdFeature& id = feature.config.id_feature();
  const config::RawFeature& raw = feature.config.raw_feature();
  if (semantics.fg_mode != config::FG_NONE) {
    rule.choose_default(id.default_value(), type);
  } else {
    rule.choose_default(feature.config.has_id_feature() ? id.fg_encoded_default_value()
                                                        : raw.fg_encoded_default_value(),
                        type);
  }
  return rule;
}

void IdFeatureRule::choose_keys(const FeatureSpec& feature) {
  const config::IdFeature& id = feature.config.id_feature();
  if (feature.config.has_raw_feature()) {
    size_ = static_cast<uint64_t>(feature.config.raw_feature().boundaries_size()) + 1;
    range_ = cat(size_ - 1, " boundaries");
  } else if (id.has_num_buckets()) {
    size_ = id.num_buckets();
    range_ = cat("num_buckets ", size_);
  } else if (id.has_hash_bucket_size()) {
    size_ = id.hash_bucket_size();
    range_ = cat("hash_bucket_size ", size_);
  } else {
    return;
  }
  const bool hashed = id.has_hash_bucket_size() && semantics_.fg_mode != config::FG_NONE;
  keys_ = hashed ? Keys::kHashed : Keys::kInRange;
  EMBLEM_REQUIRE(size_ > 0, "feature ", feature.name, " has 0 buckets; expected at least 1");
}

void IdFeatureRule::choose_default(const std::string& text, ColumnType type) {
  if (text.empty()) return;
  if (type == ColumnType::kText || (keys_ == Keys::kHashed && semantics_.fg_hash)) {
    default_key_ = key_of_text(text);
    return;
  }
  const char* setting =
      semantics_.fg_mode == config::FG_NONE ? "fg_encoded_default_value " : "default_value ";
  int64_t value = 0;
  EMBLEM_REQUIRE(parse_integer(text, value), "feature ", name, ": ", setting, in_quotes(text),
                 " is not an integer, as the column's values are");
  EMBLEM_REQUIRE(keys_ != Keys::kInRange || static_cast<uint64_t>(value) < size_, "feature ", name,
                 ": ", setting, text, " is outside [0, ", size_, ")");
  default_key_ = key_of_integer(value);
}

// A dynamic table takes any integer as it is.
int64_t IdFeatureRule::key_of_integer(int64_t value) const {
  if (keys_ != Keys::kHashed) return value;
  if (!semantics_.fg_hash) return static_cast<int64_t>(mix64(static_cast<uint64_t>(value)) % size_);
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return key_of_text({digits, static_cast<size_t>(end - digits)});
}

int64_t IdFeatureRule::key_of_text(std::string_view text) const {
  constexpr uint64_t kAnyKey =
      (uint64_t{1} << 63) - 1;  // TorchEasyRec's modulus for dynamic tables
  if (semantics_.fg_hash)
    return static_cast<int64_t>(fg_hash(text) % (keys_ == Keys::kHashed ? size_ : kAnyKey));
  const uint64_t hash = hash_string(text);
  return static_cast<int64_t>(keys_ == Keys::kHashed ? hash % size_ : hash);
}

void IdFeatureRule::apply(Block& block, SparseColumn& out, const ReportRow& report) const {
  Column& values = block.columns[static_cast<size_t>(column)];
  out.offsets.clear();
  out.weights.clear();
  if (values.offsets.empty() && values.weights.empty() && !any_missing(values)) {
    read_singles(values, out);
  } else if (values.type == ColumnType::kInt64 && values.offsets.empty() &&
             values.weights.empty()) {
    read_some_missing(values, block.rows, out);
  } else {
    read_bags(values, block.rows, out, report);
  }
  if (keys_ == Keys::kInRange) check_range(out, block.rows, report);
}

void IdFeatureRule::read_singles(Column& column, SparseColumn& out) const {
  if (column.type == ColumnType::kText) {
    out.keys.resize(column.text_ends.size());
    for (size_t i = 0; i < out.keys.size(); ++i) out.keys[i] = key_of_text(text_at(column, i));
    return;
  }
  if (take_keys) {
    hand_over(column.ints, out.keys);
  } else {
    out.keys.assign(column.ints.begin(), column.ints.end());
  }
  if (keys_ != Keys::kHashed) return;
  for (int64_t& key : out.keys) key = key_of_integer(key);
}

// At most one integer a row: what nearly all rows of real data are.
void IdFeatureRule::read_some_missing(const Column& column, int64_t rows, SparseColumn& out) const {
  out.keys.resize(static_cast<size_t>(rows));
  if (default_key_) {
    for (int64_t row = 0; row < rows; ++row) {
      out.keys[row] = column.missing[row] != 0 ? *default_key_ : key_of_integer(column.ints[row]);
    }
    return;
  }
  out.offsets.resize(static_cast<size_t>(rows + 1));
  size_t keys = 0;
  out.offsets[0] = 0;
  for (int64_t row = 0; row < rows; ++row) {
    out.keys[keys] = key_of_integer(column.ints[row]);
    keys += column.missing[row] == 0;
    out.offsets[row + 1] = static_cast<int32_t>(keys);
  }
  out.keys.resize(keys);
}

// Appends the key of value `at`; false when it is missing.
bool IdFeatureRule::append_value(const Column& column, size_t at, int64_t row, SparseColumn& out,
                                 const ReportRow& report) const {
  switch (column.type) {
    case ColumnType::kInt64:
      if (!column.missing.empty() && column.missing[at] != 0) return false;
      out.keys.push_back(key_of_integer(column.ints[at]));
      return true;
    case ColumnType::kText: {
      const std::string_view text = text_at(column, at);
      if (text.empty()) return false;
      out.keys.push_back(key_of_text(text));
      return true;
    }
    case ColumnType::kFloat:
      break;
  }
  const float value = column.floats[at];
  if (std::isnan(value)) return false;
  if (value != std::floor(value) || std::fabs(value) > 0x1p62f) {
    report(row, cat("feature ", name, ": ", value, " is not a key (expected a whole number)"));
    return false;
  }
  out.keys.push_back(key_of_integer(static_cast<int64_t>(value)));
  return true;
}

void IdFeatureRule::read_bags(const Column& column, int64_t rows, SparseColumn& out,
                              const ReportRow& report) const {
  const bool weighted = !column.weights.empty();
  out.keys.clear();
  out.offsets.assign(1, 0);
  for (int64_t row = 0; row < rows; ++row) {
    const bool plain = column.offsets.empty();
    const auto begin = static_cast<size_t>(plain ? row : column.offsets[row]);
    const auto end = static_cast<size_t>(plain ? row + 1 : column.offsets[row + 1]);
    const size_t before = out.keys.size();
    for (size_t at = begin; at < end; ++at) {
      if (append_value(column, at, row, out, report) && weighted) {
        out.weights.push_back(column.weights[at]);
      }
    }
    if (out.keys.size() == before && default_key_) {
      out.keys.push_back(*default_key_);
      if (weighted) out.weights.push_back(1.0f);
    }
    out.offsets.push_back(static_cast<int32_t>(out.keys.size()));
  }
  drop_plain_offsets(out);
}

void IdFeatureRule::check_range(const SparseColumn& out, int64_t rows,
                                const ReportRow& report) const {
  // Nearly always all are inside: one pass without branches first.
  uint64_t outside = 0;
  for (const int64_t key : out.keys)
    outside |= static_cast<uint64_t>(static_cast<uint64_t>(key) >= size_);
  if (outside == 0) return;
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = static_cast<size_t>(out.offsets.empty() ? row : out.offsets[row]);
    const auto end = static_cast<size_t>(out.offsets.empty() ? row + 1 : out.offsets[row + 1]);
    for (size_t at = begin; at < end; ++at) {
      if (static_cast<uint64_t>(out.keys[at]) < size_) continue;
      const bool wants_fg =
          semantics_.fg_mode == config::FG_NONE && !range_.starts_with("num_buckets");
      report(row, cat("feature ", name, ": id ", out.keys[at], " is outside a static table of ",
                      range_, " (expected 0 to ", size_ - 1, ")",
                      wants_fg ? "; fg_mode FG_NONE takes ids as they are, set data_config { "
                                 "fg_mode: FG_DAG } for values to be put into buckets"
                               : ""));
      break;
    }
  }
}

}  // namespace emblem
