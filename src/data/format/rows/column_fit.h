// data/format/rows/column_fit.h - a column as a columnar file has it becomes the column that a
// feature asks for: text is parsed as that of a CSV field is, lists become bags, sequences or
// single values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/format/columnar/columnar_field.h"
#include "data/format/rows/trained_fit.h"
#include "data/format/text/csv_field.h"

namespace emblem {

// A row that cannot be read, and why.
using RowProblem = std::pair<int64_t, std::string>;

// - One value per row: as it is. Text is one value, a bag or a sequence by the request's
// separators.
// - A list: the bag of a row, or the elements of a sequence; where a request wants one value, lists
//   of one value, and empty ones, which are missing values. Other lists are bad rows.
// - A list of lists: a sequence of bags.
// - Weights are kept where the request asks for them.
// - Of numbers, a label is 1 where it is label_positive, else 0.
//
// Made once; apply may run concurrently.
class ColumnFit {
 public:
  // `request` is null for columns with their natural types. Throws Error that names `source` when
  // the column cannot be what is asked for.
  ColumnFit(const ColumnarField& field, const ColumnRequest* request,
            const std::vector<std::string>& na_strings, const std::string& source,
            NaturalTypes natural = NaturalTypes::kNumbers);

  ColumnType type() const { return type_; }
  // What the column is after apply().
  ColumnSpec spec() const;
  // How the column is to be read; `field` is its position.
  ColumnRead read(int field) const;

  // `column` holds `rows` rows as they were read. `scratch` is overwritten.
  void apply(int64_t rows, Column& column, std::vector<ValueProblem> value_problems,
             Column& scratch, std::vector<RowProblem>& problems) const;

 private:
  bool must_parse(const Column& column) const;
  bool has_separators(std::string_view text) const;
  void parse(int64_t rows, Column& column, Column& scratch,
             std::vector<RowProblem>& problems) const;
  void parse_fields(int64_t rows, const Column& from, Column& to,
                    std::vector<RowProblem>& problems) const;
  void parse_values(const Column& from, Column& to, std::vector<RowProblem>& problems) const;
  void parse_bags(int64_t rows, const Column& from, Column& to,
                  std::vector<RowProblem>& problems) const;
  void set_positive(const ColumnRequest& request, const std::string& source);
  void replace_labels(Column& column) const;
  void shape(int64_t rows, Column& column, Column& scratch,
             std::vector<RowProblem>& problems) const;
  void take_single_values(int64_t rows, Column& column, Column& scratch,
                          std::vector<RowProblem>& problems) const;
  void make_sequence(int64_t rows, Column& column) const;
  void take_date_parts(Column& column) const;
  // Values that are no text and that na_strings names become missing ones.
  void mark_missing(Column& column) const;
  std::string message(const std::string& problem) const;

  ColumnarField field_;
  bool is_natural_;
  ColumnRequest request_;
  ColumnRequest value_request_;  // one value without separators
  MissingTexts missing_;
  bool has_na_strings_;
  std::optional<TrainedFit> trained_;  // where there is a request
  bool reads_dates_ = false;           // as integers, of which apply() makes numbers
  ColumnType type_;
  std::optional<float> positive_;  // for a label in a column of numbers: the value that is 1
};

}  // namespace emblem
