// data/format/row_filter.h - data_config.filters: conditions that the rows that are read fulfil.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "data/format/columnar_field.h"

namespace emblem {

// No value of a column in a part of a file is less or more; or it has nothing but missing values.
// Floating-point numbers are rounded to floats, as they are in columns.
struct ValueBounds {
  using Value = std::variant<int64_t, uint64_t, double, std::string>;
  bool all_missing = false;
  Value smallest, largest;
};

// "column OP value", where OP is one of = == != < <= > >=, or "column in [a, b]", "column not in
// [a, b]". Text may be in quotes, and must be where a list's text has commas, or where a column
// without a type has text that looks like a number. A missing value fulfils no condition. Made
// once; const methods may run concurrently.
class RowFilter {
 public:
  // Throws Error when `text` is not a condition.
  explicit RowFilter(const std::string& text);

  const std::string& text() const { return text_; }
  const std::string& column() const { return column_; }
  // Whether all of its values are numbers: not in quotes, and not written as ids are ("007").
  bool has_numbers() const;

  // Before any of the following: the values have the type of `field`. Throws Error when the column
  // is a list, or is of numbers and compared to text; `source` has it.
  void set_field(const ColumnarField& field, const std::string& source);

  // Of a column that was read with its natural type.
  bool keeps(const Column& column, int64_t row) const;
  // Of a value that is not missing. Floating-point numbers are rounded to floats.
  bool keeps(const ValueBounds::Value& value) const;

  // Whether a part with these bounds may hold a row that is kept.
  bool may_keep(const ValueBounds& bounds) const;

 private:
  enum class Operator : uint8_t { kEqual, kNotEqual, kLess, kAtMost, kMore, kAtLeast, kIn, kNotIn };

  // What a value is compared to: as text and, where it is one, as a number.
  struct Literal {
    std::string text;
    bool is_quoted = false;
    bool is_number = false, is_integer = false, is_unsigned = false;
    int64_t integer = 0;            // where is_integer
    uint64_t unsigned_integer = 0;  // where is_unsigned
    double number = 0;
    double as_float = 0;  // the number, rounded to a float
  };

  static Literal literal_of(std::string_view text);
  static int compare(const ValueBounds::Value& value, const Literal& literal);

  std::string text_, column_;
  Operator op_ = Operator::kEqual;
  std::vector<Literal> literals_;
  bool is_unsigned_ = false;  // the column's integers are bits of unsigned ones
};

// All of them. Throws Error for the first that is not a condition.
std::vector<RowFilter> row_filters(const std::vector<std::string>& conditions);

// The position of its column in `columns`. Throws Error that names the filter, the source and the
// nearest column.
int find_column(const std::vector<ColumnSpec>& columns, const RowFilter& filter,
                const std::string& source);

}  // namespace emblem
