// data/feature/number/number_rule.h - a column becomes the numbers of a feature.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"
#include "data/feature/bags.h"
#include "data/feature/bucketizer.h"
#include "data/feature/feature_counts.h"
#include "data/feature/fg/operator.h"
#include "data/feature/number/normalizer.h"
#include "data/feature/number/piecewise_linear.h"

namespace emblem {

// An infinite number is a missing value. The normalizer applies (not under FG_NONE and
// FG_BUCKETIZE), then a missing value becomes the default, then the number becomes those of
// piecewise_linear. Made once; const methods may run
// concurrently.
class NumberRule {
 public:
  // Throws Error when normalizer or default value are not valid.
  NumberRule(const FeatureSpec& feature, const Semantics& semantics,
             const config::DataConfig& data);

  // Numbers of a bag; 0: any number of them, for boundaries.
  int64_t value_dim() const { return value_dim_; }
  // One number per bag, which stays one.
  bool is_one_number() const { return value_dim_ == 1 && bins_.is_identity(); }
  // Why a row with this number, which is not finite, is bad: it is missing without a default, or
  // too large.
  std::string problem_of(float number) const;

  // In place, for value_dim 1: NaN is a missing value, and stays without a default.
  void normalize(float* values, int64_t count, FeatureCounts& counts) const;

  // Bag i's numbers to out[i * stride, i * stride + number_cols). Rows with other counts, with
  // missing numbers and no default, or whose normalized numbers are infinite are reported; padding
  // is 0.
  void read(const Column& column, const BagView& bags, int64_t stride, float* out,
            const ReportRow& report, FeatureCounts& counts) const;

  // Overwrites `out` with the buckets of each bag's numbers; none where they are missing and there
  // is no default.
  void bucketize(const Column& column, const BagView& bags, const Bucketizer& bucketizer,
                 SparseColumn& out, const ReportRow& report, FeatureCounts& counts) const;

 private:
  std::string missing_message() const;
  void read_plain(const Column& column, const BagView& bags, int64_t stride, float* out,
                  const ReportRow& report, FeatureCounts& counts) const;
  void mark_missing(float* values, int64_t count) const;
  float default_at(int64_t at) const;
  void fill_missing(float* values, int64_t count) const;
  // Numbers of one bag, normalized and filled; false when there are not value_dim of them.
  bool read_bag(const Column& column, const BagView& bags, int64_t bag, std::vector<float>& to,
                const ReportRow& report, FeatureCounts& counts) const;

  std::string name_;
  int64_t value_dim_ = 1;
  PiecewiseLinear bins_;
  Semantics semantics_;
  Normalizer normalizer_;
  std::vector<float> missing_numbers_;  // na_strings that are numbers
  std::vector<float> defaults_;         // one for all numbers of a bag, or one each
};

}  // namespace emblem
