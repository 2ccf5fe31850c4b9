#include <algorithm>
#include <cmath>

#include "data/feature/feature_rules.h"
#include "data/feature/row_gather.h"
#include "data/format/decoder.h"
#include "data/format/text_scan.h"
#include "emblem/error.h"

namespace emblem {

RawFeatureRule RawFeatureRule::of(const FeatureSpec& feature, const Semantics& semantics,
                                  int column) {
  const config::RawFeature& raw = feature.config.raw_feature();
  RawFeatureRule rule;
  rule.name = feature.name;
  rule.column = column;
  rule.value_dim = std::max<int64_t>(1, raw.value_dim());
  rule.dense_begin = feature.dense_begin;
  rule.sparse_index = feature.sparse_index;
  rule.semantics_ = semantics;
  const bool encoded = semantics.fg_mode == config::FG_NONE;
  const Normalizer normalizer = Normalizer::parse(raw.normalizer(), feature.name);
  if (!encoded && semantics.fg_mode != config::FG_BUCKETIZE) rule.normalizer_ = normalizer;
  const std::string& text = encoded ? raw.fg_encoded_default_value() : raw.default_value();
  float value = 0;
  EMBLEM_REQUIRE(parse_float(text, value), "feature ", feature.name, ": ",
                 encoded ? "fg_encoded_default_value " : "default_value ", in_quotes(text),
                 " is not a number");
  if (!std::isnan(value))
    rule.default_ = value;
  else if (!semantics.default_after_normalizer)
    rule.default_ = 0.0f;
  rule.boundaries_.assign(raw.boundaries().begin(), raw.boundaries().end());
  EMBLEM_REQUIRE(std::is_sorted(rule.boundaries_.begin(), rule.boundaries_.end()), "feature ",
                 feature.name, ": boundaries are not ascending");
  return rule;
}

void RawFeatureRule::fill_missing(float* values, int64_t count) const {
  const float otherwise = default_.value_or(kMissing);
  for (int64_t i = 0; i < count; ++i) values[i] = std::isnan(values[i]) ? otherwise : values[i];
}

void RawFeatureRule::normalize(float* values, int64_t count) const {
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
    const float otherwise = default_.value_or(kMissing);
    for (int64_t i = 0; i < size; ++i) values[i] = std::isnan(values[i]) ? otherwise : tile[i];
  }
}

std::string RawFeatureRule::missing_message() const {
  if (semantics_.fg_mode != config::FG_NONE)
    return cat("feature ", name, " is missing and has no default_value");
  return cat("feature ", name,
             " is missing; fg_mode FG_NONE takes values as they are: give it a "
             "fg_encoded_default_value, or set data_config { fg_mode: FG_DAG } for default_value");
}

void RawFeatureRule::read_vectors(const Block& block, int64_t stride, float* out,
                                  const ReportRow& report) const {
  const Column& values = block.columns[static_cast<size_t>(column)];
  for (int64_t row = 0; row < block.rows; ++row, out += stride) {
    const int64_t begin = values.offsets.empty() ? row : values.offsets[row];
    const int64_t end = values.offsets.empty() ? row + 1 : values.offsets[row + 1];
    std::fill_n(out, value_dim, kMissing);
    if (end - begin == value_dim && values.type == ColumnType::kFloat) {
      std::copy_n(values.floats.begin() + begin, value_dim, out);
    } else if (end != begin) {
      report(row, cat("feature ", name, ": found ", end - begin, " values, expected value_dim ",
                      value_dim));
    }
    normalize(out, value_dim);
  }
}

void RawFeatureRule::bucketize(const Block& block, SparseColumn& out,
                               const ReportRow& report) const {
  const Column& values = block.columns[static_cast<size_t>(column)];
  const auto count = static_cast<size_t>(block.rows * value_dim);
  std::vector<float> numbers(count);
  if (value_dim > 1) {
    read_vectors(block, value_dim, numbers.data(), report);
  } else {
    for (size_t i = 0; i < count; ++i) {
      const bool missing = !values.missing.empty() && values.missing[i] != 0;
      numbers[i] = values.type == ColumnType::kFloat ? values.floats[i]
                   : missing                         ? kMissing
                                                     : static_cast<float>(values.ints[i]);
    }
    normalize(numbers.data(), static_cast<int64_t>(count));
  }
  out.keys.clear();
  out.weights.clear();
  out.offsets.assign(1, 0);
  for (int64_t row = 0, i = 0; row < block.rows; ++row) {
    for (int64_t k = 0; k < value_dim; ++k, ++i) {
      if (std::isnan(numbers[i])) continue;
      out.keys.push_back(std::upper_bound(boundaries_.begin(), boundaries_.end(), numbers[i]) -
                         boundaries_.begin());
    }
    out.offsets.push_back(static_cast<int32_t>(out.keys.size()));
  }
  drop_plain_offsets(out);
}

}  // namespace emblem
