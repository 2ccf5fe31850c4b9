// data/feature/transform.h - input columns become features: keys of tables, normalized numbers,
// checked labels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"
#include "data/feature/bags.h"
#include "data/feature/column_requests.h"
#include "data/feature/feature_counts.h"
#include "data/feature/key_rule.h"
#include "data/feature/label_reader.h"
#include "data/feature/number/number_rule.h"
#include "data/feature/row_marks.h"
#include "data/format/decoder.h"

namespace emblem {

// What becomes of rows that cannot be read, or whose labels or ids are bad.
enum class BadRowHandling {
  kSkip,   // they are not in the batch
  kBlank,  // they keep their place as rows without values, marked in Batch::bad
};

// What happens to a feature depends on FeatureLayout::semantics. Under FG_NONE values are final: an
// id must be in [0, rows of the table) or, for a dynamic table, be any integer; numbers are as
// they are; a missing value becomes fg_encoded_default_value. Under the other modes a feature's
// values are computed from its columns (data/feature/fg), numbers are normalized, missing values
// become default_value, and categorical values become keys (data/feature/bucketizer.h). Under
// FG_DAG features may read other features: their values before they become keys.
//
// The elements of a sequence are treated as rows are. Under FG_NONE a row without values has no
// elements, or fg_encoded_default_value as its one element. Under the other modes it has one
// element, the default; and sequences are cut to the first sequence_length elements. Where the
// features of a sequence have different lengths in a row, the first feature's length counts:
// others are cut, or padded with elements without keys and with zeros.
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
  // with bad labels or values are added to piece.bad. With kBlank, the rows of `piece` are in the
  // order of their positions.
  FeatureCounts apply(DecodedPiece& piece, Batch& out) const;

 private:
  // Where values come from.
  struct Source {
    FeatureInput::Source kind = FeatureInput::Source::kColumn;
    size_t at = 0;  // index into Block::columns or steps_
  };

  // One feature.
  struct Step {
    std::string name;
    std::unique_ptr<FgOperator> operation;  // null: its value is its only source
    std::vector<Source> sources;
    ColumnType type = ColumnType::kFloat;  // type of its value
    bool is_read = false;                  // by other features
    bool is_in_batch = true;
    int64_t sequence = -1;
    SequenceRule sequence_rule;
    int64_t dense_begin = 0;
    size_t sparse_index = 0;
    std::optional<NumberRule> numbers;     // it is numeric, or has boundaries
    std::optional<Bucketizer> boundaries;  // the buckets of its numbers
    std::optional<KeyRule> keys;
    KeyRule::Take take = KeyRule::Take::kNo;
  };

  // One apply.
  struct Run {
    DecodedPiece& piece;
    Batch& out;
    RowMarks& marks;
    const ReportRow& report;
    FeatureCounts counts;
  };

  Step step_of(const FeatureSpec& feature, const FeatureLayout& layout,
               const config::DataConfig& data, const std::vector<ColumnRequest>& requests,
               const std::vector<ColumnSpec>& columns) const;
  ColumnType type_of(const Step& step, const std::vector<ColumnSpec>& columns) const;
  bool is_plain_number(const Step& step) const;
  void add_absent(const FeatureSpec& feature);
  void choose_takers(size_t columns);

  Column& value_of(const Step& step, DecodedPiece& piece) const;
  const Column& value_for_readers(const Step& step, DecodedPiece& piece) const;
  void compute_columns(Run& run) const;
  void read_buckets(const Step& step, Run& run, Column& out) const;
  void read_plain_numbers(Run& run) const;
  void mark_odd_numbers(const Step& step, int64_t begin, int64_t end, Run& run) const;
  void read_feature(const Step& step, const BagView& bags, Run& run) const;
  void add_empty_bags(Batch& out) const;
  void read_sequence(size_t sequence, Run& run) const;
  Batch blank_row(std::pmr::memory_resource* memory) const;

  BadRowHandling bad_rows_;
  LabelReader labels_;
  int64_t dense_cols_ = 0;
  size_t sparse_count_ = 0;
  std::vector<Step> steps_;                     // by position in FeatureLayout::features
  std::vector<size_t> order_;                   // indices into steps_: after those they read
  std::vector<size_t> plain_numbers_, others_;  // indices into steps_, outside of sequences
  std::vector<std::vector<size_t>> sequences_;  // indices into steps_; the first has the lengths
  std::vector<int64_t> sequence_widths_;        // widths of SequenceColumn::numbers
  // Indices into Batch::sparse: features without inputs.
  std::vector<size_t> absent_;
  bool has_absent_numbers_ = false;          // they are 0
  std::vector<int32_t> sequence_of_sparse_;  // by FeatureSpec::sparse_index; -1: none
};

}  // namespace emblem
