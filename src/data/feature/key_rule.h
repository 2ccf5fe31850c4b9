// data/feature/key_rule.h - a column becomes the keys of a categorical feature.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"
#include "data/feature/bags.h"
#include "data/feature/bucketizer.h"
#include "data/feature/feature_counts.h"
#include "data/feature/fg/operator.h"

namespace emblem {

// Made once; apply may run concurrently.
class KeyRule {
 public:
  // Throws Error when the default value is not a key of the feature. `type` is that of the column's
  // values.
  KeyRule(const FeatureSpec& feature, const Semantics& semantics, const config::DataConfig& data,
          ColumnType type);

  enum class Take { kNo, kColumn };

  // Overwrites `out` with one bag for each of `bags`. kColumn: the column's memory may be taken.
  void apply(Column& column, const BagView& bags, Take take, SparseColumn& out,
             const ReportRow& report, FeatureCounts& counts) const;

 private:
  void choose_defaults(const FeatureSpec& feature, const Semantics& semantics,
                       const config::DataConfig& data, ColumnType type);
  int64_t default_key(std::string_view text, const char* setting, ColumnType type) const;
  void read_singles(Column& column, Take take, SparseColumn& out) const;
  void read_codes(const Column& column, const BagView& bags, SparseColumn& out) const;
  void read_some_missing(const Column& column, int64_t rows, SparseColumn& out) const;
  void read_bags(const Column& column, const BagView& bags, SparseColumn& out,
                 const ReportRow& report) const;
  bool append_value(const Column& column, size_t at, int64_t row, SparseColumn& out,
                    const ReportRow& report) const;
  bool append_text(std::string_view text, int64_t row, SparseColumn& out,
                   const ReportRow& report) const;
  bool append_number(float value, int64_t row, SparseColumn& out, const ReportRow& report) const;
  void check_range(const BagView& bags, SparseColumn& out, const ReportRow& report,
                   FeatureCounts& counts) const;

  std::string name_;
  Bucketizer bucketizer_;
  bool row_0_for_others_ = false;      // ids outside of the table
  int64_t most_values_ = 0;            // limit of values of a bag; 0: all
  std::vector<int64_t> default_keys_;  // keys of a bag without values
};

}  // namespace emblem
