// data/format/rows/row_filter.h - data_config.filters: conditions that the rows that are read
// fulfil.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/format/columnar/columnar_field.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/time_text.h"

namespace emblem {

// No value of a column in a part of a file is less or more; or it has nothing but missing values.
struct ValueBounds {
  using Value = std::variant<int64_t, uint64_t, double, std::string, Moment>;
  bool all_missing = false;
  Value smallest, largest;
};

// Whether a number stands for a missing value (data/format/text/number_text.h).
bool is_missing(const ValueBounds::Value& value);

// "column OP value", where OP is one of = == != < <= > >=, or "column in [a, b]", "column not in
// [a, b]". Text may be in quotes, and must be where a list's text has commas, or where a column
// without a type has text that looks like a number, a bool or a date. A missing value fulfils no
// condition. Made once; const methods may run concurrently.
class RowFilter {
 public:
  // Throws Error when `text` is not a condition.
  explicit RowFilter(const std::string& text);

  const std::string& text() const { return text_; }
  const std::string& column() const { return column_; }
  // What all of its values are, none of them in quotes: numbers, not written as ids are ("007");
  // "true", "False" and the like; dates ("2026-11-16") or times of a day in ISO 8601. Else text.
  enum class Literals : uint8_t { kNumbers, kBools, kDates, kTimes, kText };
  Literals literals() const;

  // Before any of the following: the values have the type of `field`. Throws Error when the column
  // is a list, or is compared to what is not of its type; `source` has it.
  void set_field(const ColumnarField& field, const std::string& source);

  // Values that stand for missing ones, of data_config.na_strings.
  void set_missing(const std::vector<std::string>& na_strings) {
    missing_ = MissingTexts(na_strings);
  }

  // For a column that was read with its natural type, doubles with all their digits.
  bool keeps(const Column& column, int64_t row) const;
  // For a value that is not missing. Bools are 1 and 0.
  bool keeps(const ValueBounds::Value& value) const;

  // Whether a part with these bounds may hold a row that is kept.
  bool may_keep(const ValueBounds& bounds) const;

 private:
  enum class Operator : uint8_t { kEqual, kNotEqual, kLess, kAtMost, kMore, kAtLeast, kIn, kNotIn };

  // What a value is compared to: as text and, where it is one, as a number, a bool, a date or a
  // time.
  struct Literal {
    std::string text;
    bool is_quoted = false;
    int truth = -1;                // 1, 0; -1: no bool
    std::optional<Moment> moment;  // a time of day if not has_date
    bool has_date = false;
    bool is_number = false, is_integer = false, is_unsigned = false;
    int64_t integer = 0;            // where is_integer
    uint64_t unsigned_integer = 0;  // where is_unsigned
    double number = 0;
    double as_float = 0;  // the number, rounded to a float
  };

  static Literal literal_of(std::string_view text);
  static Literals kind_of(const Literal& literal);
  bool fits_field(const Literal& literal) const;
  int compare(const ValueBounds::Value& value, const Literal& literal) const;

  std::string text_, column_;
  Operator op_ = Operator::kEqual;
  std::vector<Literal> literals_;
  LeafType leaf_ = LeafType::kText;
  ValueType values_;
  MissingTexts missing_{std::vector<std::string>{}};
};

// All of them. Throws Error for the first that is not a condition.
std::vector<RowFilter> row_filters(const std::vector<std::string>& conditions);

// The position of its column in `columns`. Throws Error that names the filter, the source and the
// nearest column.
int find_column(const std::vector<ColumnSpec>& columns, const RowFilter& filter,
                const std::string& source);

}  // namespace emblem
