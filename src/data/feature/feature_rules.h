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

// Told of rows whose value does not fit, and why.
using ReportRow = std::function<void(int64_t row, std::string message)>;

// A categorical feature.
struct IdFeatureRule {
  // Throws Error when the default value is no key of the feature. `type` is that of the column's
  // values.
  static IdFeatureRule of(const FeatureSpec& feature, int column, ColumnType type);

  // Overwrites `out`. Takes the column's memory where take_keys allows it.
  void apply(Block& block, SparseColumn& out, const ReportRow& report) const;

  std::string name;
  int column = 0;
  int64_t sparse_index = 0;
  bool take_keys = false;

 private:
  enum class Keys { kInRange, kHashed, kAny };

  int64_t key_of_integer(int64_t value) const;
  int64_t key_of_text(std::string_view text) const;
  void check_range(const SparseColumn& out, int64_t rows, const ReportRow& report) const;
  void read_singles(Column& column, SparseColumn& out) const;
  void read_some_missing(const Column& column, int64_t rows, SparseColumn& out) const;
  void read_bags(const Column& column, int64_t rows, SparseColumn& out,
                 const ReportRow& report) const;
  bool append_value(const Column& column, size_t at, int64_t row, SparseColumn& out,
                    const ReportRow& report) const;

  Keys keys_ = Keys::kAny;
  uint64_t size_ = 0;                   // buckets
  std::optional<int64_t> default_key_;  // for missing values
};

// A numeric feature.
struct RawFeatureRule {
  // Throws Error when normalizer or default value are no good.
  static RawFeatureRule of(const FeatureSpec& feature, int column);

  // Defaults for what is missing (NaN), then the normalizer.
  void normalize(float* values, int64_t count) const;

  // value_dim > 1: row r's values to out[r * stride, r * stride + value_dim).
  void read_vectors(const Block& block, int64_t stride, float* out, const ReportRow& report) const;

  // With boundaries: the bucket of each value.
  void bucketize(const Block& block, SparseColumn& out, const ReportRow& report) const;

  std::string name;
  int column = 0;
  int64_t value_dim = 1;
  int64_t dense_begin = 0;
  int64_t sparse_index = 0;

 private:
  Normalizer normalizer_;
  float default_ = 0;
  std::vector<float> boundaries_;  // ascending
};

}  // namespace emblem
