#include "data/feature/number/number_rule.h"

#include <algorithm>
#include <cmath>

#include "data/feature/default_values.h"
#include "data/feature/label_reader.h"
#include "data/format/decoder.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// False when it is text that is not a number.
bool number_at(const Column& column, size_t at, float& value) {
  switch (column.type) {
    case ColumnType::kFloat:
      value = column.floats[at];
      return true;
    case ColumnType::kInt64:
      value = is_missing_at(column, at) ? kMissing : static_cast<float>(column.ints[at]);
      return true;
    case ColumnType::kText:
      break;
  }
  const bool is_number = parse_any_float(text_at(column, at), value);
  if (is_missing_number(value)) value = kMissing;
  return is_number;
}

}  // namespace

NumberRule::NumberRule(const FeatureSpec& feature, const Semantics& semantics,
                       const config::DataConfig& data)
    : name_(feature.name),
      value_dim_(value_dim_of(feature.settings, feature.sequence >= 0)),
      bins_(feature.settings.piecewise_linear),
      semantics_(semantics) {
  const bool encoded = semantics.fg_mode == config::FG_NONE;
  const Normalizer normalizer = Normalizer::parse(feature.settings.normalizer, feature.name);
  if (!encoded && semantics.fg_mode != config::FG_BUCKETIZE) normalizer_ = normalizer;
  for (const std::string& text : feature.settings.na_strings) {
    double value = 0;  // "inf" is one, too
    const bool is_number =
        feature.settings.date_part == config::NO_DATE && parse_double(text, value);
    if (is_number && !encoded && !std::isnan(value))
      missing_numbers_.push_back(static_cast<float>(value));
  }
  const DefaultValues values = default_values_of(feature, semantics, data);
  for (const std::string& text : values.texts) {
    float value = 0;
    EMBLEM_REQUIRE(parse_float(text, value), "feature ", name_, ": ", values.setting, " ",
                   in_quotes(text), " is not a number");
    if (!std::isnan(value)) defaults_.push_back(value);
  }
  EMBLEM_REQUIRE(defaults_.size() < 2 || value_dim_ == 0 ||
                     static_cast<int64_t>(defaults_.size()) == value_dim_,
                 "feature ", name_, ": ", values.setting, " has ", defaults_.size(),
                 " numbers; expected 1 or value_dim ", value_dim_);
  if (defaults_.empty() && !semantics.default_after_normalizer) defaults_.push_back(0.0f);
}

float NumberRule::default_at(int64_t at) const {
  if (defaults_.empty()) return kMissing;
  return defaults_.size() == 1 ? defaults_[0] : defaults_[static_cast<size_t>(at)];
}

void NumberRule::fill_missing(float* values, int64_t count) const {
  const float otherwise = default_at(0);
  for (int64_t i = 0; i < count; ++i) values[i] = std::isnan(values[i]) ? otherwise : values[i];
}

void NumberRule::mark_missing(float* values, int64_t count) const {
  for (const float missing : missing_numbers_)
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] == missing ? kMissing : values[i];
}

void NumberRule::normalize(float* values, int64_t count, FeatureCounts& counts) const {
  mark_missing(values, count);
  int64_t infinite = 0;
  for (int64_t i = 0; i < count; ++i) infinite += std::isinf(values[i]) ? 1 : 0;
  if (infinite > 0) {
    counts.infinite_numbers += infinite;
    std::replace_if(
        values, values + count, [](float x) { return std::isinf(x); }, kMissing);
  }
  if (!semantics_.default_after_normalizer) {
    fill_missing(values, count);
    normalizer_.apply(values, count);
    return;
  }
  if (normalizer_.is_identity()) {
    fill_missing(values, count);
    return;
  }
  constexpr int64_t kTile = 256;
  float tile[kTile];
  for (int64_t begin = 0; begin < count; begin += kTile, values += kTile) {
    const int64_t size = std::min(kTile, count - begin);
    for (int64_t i = 0; i < size; ++i) tile[i] = std::isnan(values[i]) ? 0.0f : values[i];
    normalizer_.apply(tile, size);
    const float otherwise = default_at(0);
    // What an expression makes no number of is missing, too.
    for (int64_t i = 0; i < size; ++i) {
      const bool is_missing = std::isnan(values[i]) || std::isnan(tile[i]);
      values[i] = is_missing ? otherwise : tile[i];
    }
  }
}

std::string NumberRule::missing_message() const {
  if (semantics_.fg_mode != config::FG_NONE)
    return cat("feature ", name_, " is missing and has no default_value");
  return cat("feature ", name_,
             " is missing; fg_mode FG_NONE takes values as they are: give it a "
             "fg_encoded_default_value, or set data_config { fg_mode: FG_DAG } for default_value");
}

std::string NumberRule::problem_of(float number) const {
  return std::isnan(number) ? missing_message()
                            : cat("feature ", name_, " is ", number, ", expected a finite number");
}

bool NumberRule::read_bag(const Column& column, const BagView& bags, int64_t bag,
                          std::vector<float>& to, const ReportRow& report,
                          FeatureCounts& counts) const {
  to.clear();
  for (int64_t at = bags.begin(bag); at < bags.end(bag); ++at) {
    float value = kMissing;
    if (!number_at(column, static_cast<size_t>(at), value)) {
      report(bags.row(bag),
             cat("feature ", name_, ": ", in_quotes(text_at(column, static_cast<size_t>(at))),
                 " is not a number"));
    }
    counts.infinite_numbers += std::isinf(value) ? 1 : 0;
    to.push_back(std::isinf(value) ? kMissing : value);
  }
  const auto found = static_cast<int64_t>(to.size());
  mark_missing(to.data(), found);
  if (found == 0)
    to.resize(value_dim_ > 0 ? static_cast<size_t>(value_dim_) : defaults_.size(), kMissing);
  const bool fits = value_dim_ == 0 || found == 0 || found == value_dim_;
  if (!fits) {
    report(bags.row(bag),
           cat("feature ", name_, ": found ", found, " values, expected value_dim ", value_dim_));
    to.resize(static_cast<size_t>(value_dim_), kMissing);
  }
  for (size_t i = 0; i < to.size(); ++i) {
    const bool in_defaults = defaults_.size() < 2 || i < defaults_.size();
    if (std::isnan(to[i]) && !semantics_.default_after_normalizer) to[i] = default_at(0);
    if (!std::isnan(to[i])) normalizer_.apply(&to[i], 1);
    if (std::isnan(to[i]) && semantics_.default_after_normalizer && in_defaults)
      to[i] = default_at(static_cast<int64_t>(i));
  }
  return fits;
}

// One number in each row, all at once.
void NumberRule::read_plain(const Column& column, const BagView& bags, int64_t stride, float* out,
                            const ReportRow& report, FeatureCounts& counts) const {
  std::vector<float> numbers(static_cast<size_t>(bags.size()));
  copy_numbers(column, 0, bags.size(), numbers.data());
  normalize(numbers.data(), bags.size(), counts);
  for (int64_t bag = 0; bag < bags.size(); ++bag, out += stride) {
    const float number = numbers[static_cast<size_t>(bag)];
    bins_.encode(number, out);
    if (!std::isfinite(number)) report(bags.row(bag), problem_of(number));
  }
}

void NumberRule::read(const Column& column, const BagView& bags, int64_t stride, float* out,
                      const ReportRow& report, FeatureCounts& counts) const {
  if (!bins_.is_identity() && bags.is_plain() && column.type != ColumnType::kText)
    return read_plain(column, bags, stride, out, report, counts);
  std::vector<float> numbers;
  for (int64_t bag = 0; bag < bags.size(); ++bag, out += stride) {
    if (bags.is_padding(bag)) {
      std::fill_n(out, bins_.is_identity() ? value_dim_ : bins_.bins(), 0.0f);
      continue;
    }
    const bool fits = read_bag(column, bags, bag, numbers, report, counts);
    if (bins_.is_identity())
      std::copy(numbers.begin(), numbers.end(), out);
    else
      bins_.encode(numbers[0], out);
    const auto odd =
        std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
    if (fits && odd != numbers.end()) report(bags.row(bag), problem_of(*odd));
  }
}

void NumberRule::bucketize(const Column& column, const BagView& bags, const Bucketizer& bucketizer,
                           SparseColumn& out, const ReportRow& report,
                           FeatureCounts& counts) const {
  std::vector<float> numbers;
  const bool is_plain = bags.is_plain() && value_dim_ == 1 && column.type != ColumnType::kText;
  if (is_plain) {  // all at once
    numbers.resize(static_cast<size_t>(bags.size()));
    copy_numbers(column, 0, bags.size(), numbers.data());
    normalize(numbers.data(), bags.size(), counts);
  }
  out.keys.clear();
  out.weights.clear();
  out.offsets.assign(1, 0);
  for (int64_t bag = 0; bag < bags.size(); ++bag) {
    if (is_plain) {
      const float value = numbers[static_cast<size_t>(bag)];
      if (!std::isnan(value)) out.keys.push_back(bucketizer.bucket_of(value));
    } else if (!bags.is_padding(bag)) {
      read_bag(column, bags, bag, numbers, report, counts);
      for (const float value : numbers)
        if (!std::isnan(value)) out.keys.push_back(bucketizer.bucket_of(value));
    }
    out.offsets.push_back(static_cast<int32_t>(out.keys.size()));
  }
  drop_plain_offsets(out);
  bucketizer.divide(out.keys);
}

}  // namespace emblem
