// data/feature/transform.h - input columns become features: keys of tables, normalized numbers,
// checked labels.
#pragma once

#include <string>
#include <vector>

#include "config/features.h"
#include "data/batch.h"
#include "data/feature/feature_rules.h"
#include "data/format/decoder.h"

namespace emblem {

// What a label may be. Rows with other labels are bad rows.
enum class LabelCheck {
  kBinary,  // 0 or 1
  kNumber,  // any number, but not missing
  kIgnore,  // labels are not read and Batch::labels stays empty: for prediction
};

// What becomes of rows that cannot be read, or whose labels or ids are bad.
enum class BadRowHandling {
  kSkip,   // they are not in the batch
  kBlank,  // they keep their place as rows without values, marked in Batch::bad
};

// The columns that the features, labels and weights of a pipeline read, and the types as which CSV
// text is read for them.
std::vector<ColumnRequest> columns_needed(const config::DataConfig& data,
                                          const FeatureLayout& features, LabelCheck labels);

// What happens to a feature depends on FeatureLayout::semantics. Under FG_NONE values are final: an
// id must be in [0, rows of the table) or, for a dynamic table, be any integer; numbers are as
// they are; a missing value becomes fg_encoded_default_value. Under the other modes:
//
// Id features: a key with num_buckets must be in [0, num_buckets); with hash_bucket_size it is
// fg_hash(text) % size, integers as decimal text; a dynamic table's key is the integer itself or
// fg_hash(text) % (2^63 - 1). A missing value becomes default_value, or no key at all. Raw
// features: the normalizer applies (not under FG_BUCKETIZE), then a missing value becomes
// default_value; with boundaries the key is the number of boundaries that are not above the value.
//
// Made once; apply may run concurrently.
class FeatureTransform {
 public:
  // `requests` are those of columns_needed, `columns` what the decoder makes of them.
  FeatureTransform(const config::DataConfig& data, const FeatureLayout& features, LabelCheck labels,
                   const std::vector<ColumnRequest>& requests,
                   const std::vector<ColumnSpec>& columns,
                   BadRowHandling bad_rows = BadRowHandling::kSkip);

  // Overwrites `out` with the rows of `piece`, whose columns may be left with other contents. Rows
  // with bad labels or ids are added to piece.bad. With kBlank, the rows of `piece` are in the
  // order of their positions.
  void apply(DecodedPiece& piece, Batch& out) const;

 private:
  class RowMarks;

  void read_labels(const DecodedPiece& piece, Batch& out, RowMarks& marks) const;
  void read_numbers(const DecodedPiece& piece, Batch& out, RowMarks& marks) const;
  void mark_missing(const RawFeatureRule& rule, const Batch& out, RowMarks& marks) const;
  Batch blank_row(std::pmr::memory_resource* memory) const;

  LabelCheck label_check_;
  BadRowHandling bad_rows_;
  int label_column_ = -1;  // -1: labels are not read
  std::string label_name_;
  int weight_column_ = -1;
  int64_t dense_cols_ = 0;
  std::vector<RawFeatureRule> numbers_;  // dense features
  std::vector<RawFeatureRule> buckets_;  // raw features with boundaries
  std::vector<IdFeatureRule> ids_;
  size_t sparse_count_ = 0;
};

}  // namespace emblem
