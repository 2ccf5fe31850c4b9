// data/feature/label_reader.h - label and weight columns become Batch::labels and
// Batch::sample_weights.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"
#include "data/feature/feature_counts.h"
#include "data/feature/row_marks.h"
#include "data/format/decoder.h"

namespace emblem {

enum class LabelCheck {
  kByKind,  // what LabelSpec::kind allows; rows with other labels are bad rows
  kIgnore,  // labels are not read and Batch::labels stays empty: for prediction
};

ColumnRequest request_for_label(const LabelSpec& label, const config::DataConfig& data);
// data_config.label_positive for formats whose labels are numbers, which no request changes;
// nothing where there is none. Throws Error when it is not a number.
std::optional<float> positive_number(const config::DataConfig& data);
ColumnRequest request_for_weight(const std::string& name);

// Row r of a single-valued column as a number, for `count` rows from `begin` on; NaN where it is
// missing.
void copy_numbers(const Column& column, int64_t begin, int64_t count, float* to);

// Made once; read may run concurrently.
class LabelReader {
 public:
  LabelReader() = default;
  // `label_columns` and `weight_columns` are positions in Block::columns.
  // `positive`: labels of LabelKind::kBinary are 1 where they have this value, else 0; nothing
  // where they are 0 and 1 already.
  LabelReader(const FeatureLayout& layout, std::vector<int> label_columns,
              std::vector<int> weight_columns, std::optional<float> positive);

  // Overwrites labels and weights of `out`, whose rows are set. Rows whose labels are not of their
  // kind, or whose weights are missing or negative, are marked. A label that may be missing is NaN
  // then; rows without any of these are marked.
  void read(const Block& block, Batch& out, RowMarks& marks, FeatureCounts& counts) const;

  size_t label_count() const { return label_columns_.size(); }
  size_t weight_count() const { return weight_columns_.size(); }

 private:
  void read_classes(size_t at, const Block& block, Batch& out, RowMarks& marks) const;
  void replace_labels(size_t at, Batch& out) const;
  void check_labels(size_t at, const Batch& out, RowMarks& marks) const;
  void check_missing(const Batch& out, RowMarks& marks, FeatureCounts& counts) const;
  void check_weights(size_t at, const Batch& out, RowMarks& marks) const;

  // The classes of a label by their text, and by their number where they have one.
  struct Classes {
    std::map<std::string, float, std::less<>> by_text;
    std::map<float, float> by_number;
  };

  std::vector<LabelSpec> labels_;
  std::vector<Classes> classes_;  // empty for labels without LabelSpec::values
  std::vector<std::string> weights_;
  std::vector<int> label_columns_, weight_columns_;
  std::optional<float> positive_;
};

}  // namespace emblem
