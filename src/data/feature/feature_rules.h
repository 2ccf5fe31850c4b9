// data/feature/feature_rules.h - one feature's transform, prepared from its configuration.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/features.h"
#include "data/batch.h"
#include "data/feature/normalizer.h"
#include "data/format/block.h"

namespace emblem {

// Takes rows whose value does not fit, and why.
using ReportRow = std::function<void(int64_t row, std::string message)>;

// A categorical feature: an id feature, or under FG_NONE a raw feature with boundaries, whose
// column holds numbers of buckets.
struct IdFeatureRule {
  // Throws Error when the default value is not a key of the feature. `type` is that of the column's
  // values.
  static IdFeatureRule of(const FeatureSpec& feature, const Semantics& semantics, int column,
                          ColumnType type);

  // Overwrites `out`. Takes the column's memory where take_keys allows it.
  void apply(Block& block, SparseColumn& out, const ReportRow& report) const;

  std::string name;
  int column = 0;
  int64_t sparse_index = 0;
  bool take_keys = false;

 private:
  enum class Keys { kInRange, kHashed, kAny };

  void choose_keys(const FeatureSpec& feature);
  void choose_default(const std::string& text, ColumnType type);
  int64_t key_of_integer(int64_t value) const;
  int64_t key_of_text(std::string_view text) const;
  void check_range(const SparseColumn& out, int64_t rows, const ReportRow& report) const;
  void read_singles(Column& column, SparseColumn& out) const;
  void read_some_missing(const Column& column, int64_t rows, SparseColumn& out) const;
  void read_bags(const Column& column, int64_t rows, SparseColumn& out,
                 const ReportRow& report) const;
  bool append_value(const Column& column, size_t at, int64_t row, SparseColumn& out,
                    const ReportRow& report) const;

  Semantics semantics_;
  Keys keys_ = Keys::kAny;
  uint64_t size_ = 0;                   // buckets
  std::string range_;                   // "num_buckets 10", for messages
  std::optional<int64_t> default_key_;  // for missing values
};

// A numeric feature.
struct RawFeatureRule {
  // Throws Error when normalizer or default value are not valid.
  static RawFeatureRule of(const FeatureSpec& feature, const Semantics& semantics, int column);

  // The normalizer, and default_value for what is missing (NaN); without a default it stays NaN.
  void normalize(float* values, int64_t count) const;
  bool has_default() const { return default_.has_value(); }
  // Of a row whose value is missing.
  std::string missing_message() const;

  // value_dim > 1: row r's values to out[r * stride, r * stride + value_dim); NaN where they are
  // missing and there is no default.
  void read_vectors(const Block& block, int64_t stride, float* out, const ReportRow& report) const;

  // With boundaries: the bucket of each value; none where it is missing and there is no default.
  void bucketize(const Block& block, SparseColumn& out, const ReportRow& report) const;

  std::string name;
  int column = 0;
  int64_t value_dim = 1;
  int64_t dense_begin = 0;
  int64_t sparse_index = 0;

 private:
  void fill_missing(float* values, int64_t count) const;

  Semantics semantics_;
  Normalizer normalizer_;
  std::optional<float> default_;
  std::vector<float> boundaries_;  // ascending
};

}  // namespace emblem
