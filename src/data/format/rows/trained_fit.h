// data/format/rows/trained_fit.h - values of a columnar file as those that a model was trained on:
// numbers as the text of training, dates and times in its unit.
#pragma once

#include <string>
#include <vector>

#include "data/format/columnar/columnar_field.h"

namespace emblem {

// Made once; apply may run concurrently.
class TrainedFit {
 public:
  // Throws Error that names `source` when the column is of a kind that cannot be certain to mean
  // what that of training meant.
  TrainedFit(const ColumnarField& field, const ColumnRequest& request, const std::string& source);

  // The type of the column after apply(); that of text before it is parsed.
  ColumnType type() const { return type_; }
  ColumnType read_type() const { return is_scaled_ || is_time_text_ ? ColumnType::kInt64 : type_; }
  // For numbers with a fraction as text: whether decimals keep all their digits.
  bool reads_all_digits() const { return reads_all_digits_; }

  // For columns without text in the file. Values that have no counterpart are added to
  // `problems`.
  void apply(Column& column, std::vector<ValueProblem>& problems) const;

 private:
  void scale(Column& column, std::vector<ValueProblem>& problems) const;
  void write_times(Column& column, std::vector<ValueProblem>& problems) const;
  void respell_values(Column& column, std::vector<ValueProblem>& problems) const;

  ValueType found_;
  TrainedValues trained_;
  ColumnType type_ = ColumnType::kText;
  bool is_scaled_ = false;     // a date or time of another unit
  bool is_time_text_ = false;  // a date or time that was text in training
  bool is_respelled_ = false;  // a number that had another text in training
  bool reads_all_digits_ = false;
};

// Whether a column of text has values that respell() changes.
bool is_spelled_otherwise(const TrainedValues& trained, const Column& column);

}  // namespace emblem
