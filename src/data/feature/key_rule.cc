#include "data/feature/key_rule.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "data/feature/default_values.h"
#include "data/format/decoder.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {

KeyRule::KeyRule(const FeatureSpec& feature, const Semantics& semantics,
                 const config::DataConfig& data, ColumnType type)
    : name_(feature.name),
      bucketizer_(feature, semantics),
      row_0_for_others_(data.out_of_range_ids() == config::ROW_0) {
  if (semantics.fg_mode != config::FG_NONE)
    most_values_ = value_dim_of(feature.settings, feature.sequence >= 0);
  choose_defaults(feature, semantics, data, type);
}

void KeyRule::choose_defaults(const FeatureSpec& feature, const Semantics& semantics,
                              const config::DataConfig& data, ColumnType type) {
  const DefaultValues values = default_values_of(feature, semantics, data);
  for (const std::string& text : values.texts)
    default_keys_.push_back(default_key(text, values.setting, type));
  if (most_values_ > 0 && static_cast<int64_t>(default_keys_.size()) > most_values_)
    default_keys_.resize(static_cast<size_t>(most_values_));
}

int64_t KeyRule::default_key(std::string_view text, const char* setting, ColumnType type) const {
  using Way = Bucketizer::Way;
  const Way way = bucketizer_.way();
  const bool is_text = type == ColumnType::kText || way == Way::kVocabulary ||
                       (way == Way::kHashed && bucketizer_.hashes_as_text());
  if (is_text && way != Way::kInRange) return bucketizer_.key_of(text);
  int64_t value = 0;
  EMBLEM_REQUIRE(parse_integer(text, value), "feature ", name_, ": ", setting, " ", in_quotes(text),
                 " is not an integer, as the column's values are");
  EMBLEM_REQUIRE(!bucketizer_.has_range() || bucketizer_.is_in_range(value), "feature ", name_,
                 ": ", setting, " ", text, " is outside [0, ", bucketizer_.size(), ")");
  return bucketizer_.key_of(value);
}

void KeyRule::apply(Column& column, const BagView& bags, Take take, SparseColumn& out,
                    const ReportRow& report, FeatureCounts& counts) const {
  out.offsets.clear();
  out.weights.clear();
  if (column.dictionary != nullptr && bucketizer_.way() != Bucketizer::Way::kInRange) {
    read_codes(column, bags, out);
    return bucketizer_.divide(out.keys);
  }
  expand_codes(column);
  const bool is_single = bags.is_plain() && column.weights.empty();
  const bool is_number =
      column.type == ColumnType::kFloat ||
      (column.type == ColumnType::kText && bucketizer_.way() == Bucketizer::Way::kInRange);
  if (is_single && !is_number && !any_missing(column)) {
    read_singles(column, take, out);
  } else if (is_single && column.type == ColumnType::kInt64 && default_keys_.size() < 2) {
    read_some_missing(column, bags.size(), out);
  } else {
    read_bags(column, bags, out, report);
  }
  if (bucketizer_.has_range()) check_range(bags, out, report, counts);
  bucketizer_.divide(out.keys);
}

namespace {

// The keys of a dictionary's entries under one rule, each made when it is first asked for.
class EntryKeys {
 public:
  EntryKeys(TextDictionary& dictionary, const KeyRule& rule, const Bucketizer& bucketizer)
      : dictionary_(dictionary), keys_(keys_of(dictionary, &rule)), bucketizer_(bucketizer) {}

  // False when the value is missing.
  bool find(int32_t code, int64_t& key) {
    if (code < 0) return false;
    const auto entry = static_cast<size_t>(code);
    key = keys_.keys[entry];
    return key != kUnknown || make(entry, key);
  }

 private:
  // A key that is equal to it is made every time.
  static constexpr int64_t kUnknown = INT64_MIN;

  static TextDictionary::Keys& keys_of(TextDictionary& dictionary, const void* rule) {
    for (TextDictionary::Keys& keys : dictionary.keys)
      if (keys.rule == rule) return keys;
    TextDictionary::Keys& keys = dictionary.keys.emplace_back();
    keys.rule = rule;
    keys.keys.assign(dictionary.ends.size(), kUnknown);
    return keys;
  }

  bool make(size_t entry, int64_t& key) {
    const std::string_view text = dictionary_[entry];
    if (text.empty()) return false;
    key = keys_.keys[entry] = bucketizer_.key_of(text);
    return true;
  }

  TextDictionary& dictionary_;
  TextDictionary::Keys& keys_;
  const Bucketizer& bucketizer_;
};

}  // namespace

void KeyRule::read_codes(const Column& column, const BagView& bags, SparseColumn& out) const {
  EntryKeys entries(*column.dictionary, *this, bucketizer_);
  const size_t most = most_values_ > 0 ? static_cast<size_t>(most_values_) : SIZE_MAX;
  int64_t key = 0;
  if (bags.is_plain()) {  // nearly always one value per row
    out.keys.resize(static_cast<size_t>(bags.size()));
    int64_t row = 0;
    for (; row < bags.size() && entries.find(column.codes[row], key); ++row) out.keys[row] = key;
    if (row == bags.size()) return;
  }
  out.keys.clear();
  out.keys.reserve(column.codes.size());
  out.offsets.reserve(static_cast<size_t>(bags.size() + 1));
  out.offsets.assign(1, 0);
  for (int64_t bag = 0; bag < bags.size(); ++bag) {
    const size_t before = out.keys.size();
    for (int64_t at = bags.begin(bag); at < bags.end(bag) && out.keys.size() - before < most; ++at)
      if (entries.find(column.codes[static_cast<size_t>(at)], key)) out.keys.push_back(key);
    if (out.keys.size() == before && !bags.is_padding(bag))
      out.keys.insert(out.keys.end(), default_keys_.begin(), default_keys_.end());
    out.offsets.push_back(static_cast<int32_t>(out.keys.size()));
  }
  drop_plain_offsets(out);
}

void KeyRule::read_singles(Column& column, Take take, SparseColumn& out) const {
  if (column.type == ColumnType::kText) {
    out.keys.resize(column.text_ends.size());
    for (size_t i = 0; i < out.keys.size(); ++i)
      out.keys[i] = bucketizer_.key_of(text_at(column, i));
    return;
  }
  if (take == Take::kColumn) {
    hand_over(column.ints, out.keys);
  } else {
    out.keys.assign(column.ints.begin(), column.ints.end());
  }
  if (bucketizer_.keeps_integers()) return;
  for (int64_t& key : out.keys) key = bucketizer_.key_of(key);
}

// Bags of at most one integer per row: what nearly all rows of real data are.
void KeyRule::read_some_missing(const Column& column, int64_t rows, SparseColumn& out) const {
  out.keys.resize(static_cast<size_t>(rows));
  if (!default_keys_.empty()) {
    for (int64_t row = 0; row < rows; ++row) {
      out.keys[row] =
          column.missing[row] != 0 ? default_keys_[0] : bucketizer_.key_of(column.ints[row]);
    }
    return;
  }
  out.offsets.resize(static_cast<size_t>(rows + 1));
  size_t keys = 0;
  out.offsets[0] = 0;
  for (int64_t row = 0; row < rows; ++row) {
    out.keys[keys] = bucketizer_.key_of(column.ints[row]);
    keys += column.missing[row] == 0;
    out.offsets[row + 1] = static_cast<int32_t>(keys);
  }
  out.keys.resize(keys);
}

bool KeyRule::append_text(std::string_view text, int64_t row, SparseColumn& out,
                          const ReportRow& report) const {
  if (bucketizer_.way() != Bucketizer::Way::kInRange) {
    out.keys.push_back(bucketizer_.key_of(text));
    return true;
  }
  int64_t value = 0;
  if (!parse_integer(text, value)) {
    report(row, cat("feature ", name_, ": ", in_quotes(text),
                    " is not a key (expected a whole number)"));
    return false;
  }
  if (value == kMissingId) return false;
  out.keys.push_back(value);
  return true;
}

bool KeyRule::append_number(float value, int64_t row, SparseColumn& out,
                            const ReportRow& report) const {
  int64_t integer = 0;
  if (to_integer(static_cast<double>(value), integer)) {
    if (integer == kMissingId) return false;
    out.keys.push_back(bucketizer_.key_of(integer));
    return true;
  }
  if (bucketizer_.keeps_integers()) {
    report(row, cat("feature ", name_, ": ", value, " is not a key (expected a whole number)"));
    return false;
  }
  std::string text;
  write_number(value, text);
  out.keys.push_back(bucketizer_.key_of(text));
  return true;
}

// Appends the key of value `at`; false when it has none.
bool KeyRule::append_value(const Column& column, size_t at, int64_t row, SparseColumn& out,
                           const ReportRow& report) const {
  if (is_missing_at(column, at)) return false;
  switch (column.type) {
    case ColumnType::kInt64:
      out.keys.push_back(bucketizer_.key_of(column.ints[at]));
      return true;
    case ColumnType::kText:
      return append_text(text_at(column, at), row, out, report);
    case ColumnType::kFloat:
      break;
  }
  return append_number(column.floats[at], row, out, report);
}

void KeyRule::read_bags(const Column& column, const BagView& bags, SparseColumn& out,
                        const ReportRow& report) const {
  const bool weighted = !column.weights.empty();
  const size_t most = most_values_ > 0 ? static_cast<size_t>(most_values_) : SIZE_MAX;
  out.keys.clear();
  out.keys.reserve(static_cast<size_t>(bags.size()));
  out.offsets.reserve(static_cast<size_t>(bags.size() + 1));
  out.offsets.assign(1, 0);
  for (int64_t bag = 0; bag < bags.size(); ++bag) {
    const size_t before = out.keys.size();
    for (int64_t at = bags.begin(bag); at < bags.end(bag) && out.keys.size() - before < most;
         ++at) {
      if (append_value(column, static_cast<size_t>(at), bags.row(bag), out, report) && weighted) {
        out.weights.push_back(column.weights[static_cast<size_t>(at)]);
      }
    }
    if (out.keys.size() == before && !bags.is_padding(bag)) {
      out.keys.insert(out.keys.end(), default_keys_.begin(), default_keys_.end());
      if (weighted) out.weights.resize(out.keys.size(), 1.0f);
    }
    out.offsets.push_back(static_cast<int32_t>(out.keys.size()));
  }
  drop_plain_offsets(out);
}

void KeyRule::check_range(const BagView& bags, SparseColumn& out, const ReportRow& report,
                          FeatureCounts& counts) const {
  // Nearly always all are inside: one pass without branches first.
  uint64_t outside = 0;
  for (const int64_t key : out.keys)
    outside |= static_cast<uint64_t>(!bucketizer_.is_in_range(key));
  if (outside == 0) return;
  if (row_0_for_others_) {
    for (int64_t& key : out.keys) {
      if (bucketizer_.is_in_range(key)) continue;
      key = 0;
      ++counts.ids_in_row_0;
    }
    return;
  }
  for (int64_t bag = 0; bag < bags.size(); ++bag) {
    const auto begin = static_cast<size_t>(out.offsets.empty() ? bag : out.offsets[bag]);
    const auto end = static_cast<size_t>(out.offsets.empty() ? bag + 1 : out.offsets[bag + 1]);
    for (size_t at = begin; at < end; ++at) {
      if (bucketizer_.is_in_range(out.keys[at])) continue;
      report(bags.row(bag), bucketizer_.range_message(out.keys[at]));
      break;
    }
  }
}

}  // namespace emblem
