#include "data/format/rows/row_filter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/text/text.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/number_text.h"
#include "data/format/text/spelling.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kExpected =
    " is not a condition; expected COLUMN OP VALUE with =, !=, <, <=, > or >=, or COLUMN in "
    "[VALUE, ...], as in "
    "\"day >= 20261101\"";

bool is_name(char c) { return c != ' ' && c != '<' && c != '>' && c != '=' && c != '!'; }

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                      text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// The length of the value at the front of `text`, which a comma or the end follows. A comma within
// quotes that enclose the whole value is part of it.
size_t value_length(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) {
    for (size_t at = text.find(text[begin], begin + 1); at != text.npos;
         at = text.find(text[begin], at + 1)) {
      const size_t next = std::min(text.find_first_not_of(' ', at + 1), text.size());
      if (next == text.size() || text[next] == ',') return next;
    }
  }
  return std::min(text.find(','), text.size());
}

// Takes `word`, which a space, a bracket or the end follows, from the front.
bool take_word(std::string_view word, std::string_view& text) {
  if (!text.starts_with(word)) return false;
  const std::string_view rest = text.substr(word.size());
  if (!rest.empty() && rest[0] != ' ' && rest[0] != '[') return false;
  text = trim(rest);
  return true;
}

// What a condition on a column of these values compares them to.
const char* expected_literal(const ValueType& values) {
  if (values.kind == ValueKind::kBool) return "true, false, 1 or 0";
  if (values.is_point_in_time()) return "a date such as 2026-11-16 or an integer";
  if (values.kind == ValueKind::kTime) return "a time such as 12:30:00 or an integer";
  return "a number";
}

}  // namespace

bool is_missing(const ValueBounds::Value& value) {
  return std::visit(
      [](const auto& is) {
        using T = std::decay_t<decltype(is)>;
        if constexpr (std::is_arithmetic_v<T>) return is_missing_number(is);
        return false;
      },
      value);
}

RowFilter::Literal RowFilter::literal_of(std::string_view text) {
  Literal literal;
  literal.text = unquoted(trim(text));
  literal.is_quoted = literal.text.size() != trim(text).size();
  const char* const begin = literal.text.data();
  const char* const end = begin + literal.text.size();
  const auto integer = std::from_chars(begin, end, literal.integer);
  literal.is_integer = integer.ec == std::errc() && integer.ptr == end;
  const auto unsigned_integer = std::from_chars(begin, end, literal.unsigned_integer);
  literal.is_unsigned = unsigned_integer.ec == std::errc() && unsigned_integer.ptr == end;
  const auto number = std::from_chars(begin, end, literal.number);
  literal.is_number = number.ec == std::errc() && number.ptr == end && !std::isnan(literal.number);
  literal.as_float = static_cast<double>(static_cast<float>(literal.number));
  literal.truth = truth_of(literal.text);
  Moment moment;
  if (TimeFormat format; parse_moment(literal.text, moment, format)) {
    literal.moment = moment;
    literal.has_date = format.has_date;
  }
  return literal;
}

RowFilter::RowFilter(const std::string& text) : text_(text) {
  std::string_view rest = trim(text);
  const auto name_end = std::find_if_not(rest.begin(), rest.end(), is_name);
  column_ = std::string(rest.begin(), name_end);
  rest = trim(rest.substr(column_.size()));
  const std::pair<std::string_view, Operator> kSigns[] = {
      {"==", Operator::kEqual},   {"!=", Operator::kNotEqual}, {"<=", Operator::kAtMost},
      {">=", Operator::kAtLeast}, {"=", Operator::kEqual},     {"<", Operator::kLess},
      {">", Operator::kMore}};
  for (const auto& [sign, op] : kSigns) {
    if (!rest.starts_with(sign)) continue;
    op_ = op;
    literals_.push_back(literal_of(rest.substr(sign.size())));
    EMBLEM_REQUIRE(!column_.empty() && !trim(rest.substr(sign.size())).empty(), "the filter ",
                   in_quotes(text), kExpected);
    return;
  }
  const bool negated = take_word("not", rest);
  const bool is_list = take_word("in", rest) && rest.starts_with('[') && rest.ends_with(']');
  EMBLEM_REQUIRE(!column_.empty() && is_list, "the filter ", in_quotes(text), kExpected);
  op_ = negated ? Operator::kNotIn : Operator::kIn;
  rest = rest.substr(1, rest.size() - 2);
  for (size_t length = value_length(rest);; length = value_length(rest)) {
    literals_.push_back(literal_of(rest.substr(0, length)));
    if (length == rest.size()) return;
    rest = rest.substr(length + 1);
  }
}

void RowFilter::set_field(const ColumnarField& field, const std::string& source) {
  EMBLEM_REQUIRE(field.lists == 0 && field.type != LeafType::kOther, "the filter ",
                 in_quotes(text_), ": column ", in_quotes(field.name), " of ", source, " is ",
                 field.type_text, "; expected a column with one value per row");
  leaf_ = field.type;
  values_ = field.values();
  if (field.type == LeafType::kText) return;
  for (const Literal& literal : literals_)
    EMBLEM_REQUIRE(fits_field(literal), "the filter ", in_quotes(text_), ": column ",
                   in_quotes(field.name), " of ", source, " is ", field.type_text, "; expected ",
                   expected_literal(values_), " in place of ", in_quotes(literal.text));
}

bool RowFilter::fits_field(const Literal& literal) const {
  if (literal.is_number) return true;
  if (values_.kind == ValueKind::kBool) return literal.truth >= 0;
  const bool is_time = values_.is_point_in_time() || values_.kind == ValueKind::kTime;
  return is_time && literal.moment && literal.has_date == values_.is_point_in_time();
}

RowFilter::Literals RowFilter::kind_of(const Literal& literal) {
  if (literal.is_quoted) return Literals::kText;
  if (literal.is_number && !is_written_as_id(literal.text)) return Literals::kNumbers;
  if (literal.truth >= 0) return Literals::kBools;
  if (!literal.moment) return Literals::kText;
  return literal.has_date ? Literals::kDates : Literals::kTimes;
}

RowFilter::Literals RowFilter::literals() const {
  const Literals first = kind_of(literals_[0]);
  const bool are_alike =
      std::all_of(literals_.begin(), literals_.end(),
                  [&](const Literal& literal) { return kind_of(literal) == first; });
  return are_alike ? first : Literals::kText;
}

// Negative, 0 or positive as the value is less, equal or more.
int RowFilter::compare(const ValueBounds::Value& value, const Literal& literal) const {
  const auto three_way = [](const auto& a, const auto& b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (const auto* text = std::get_if<std::string>(&value)) return three_way(*text, literal.text);
  if (const auto* moment = std::get_if<Moment>(&value)) return three_way(*moment, *literal.moment);
  if (const auto* number = std::get_if<double>(&value))
    return three_way(*number, leaf_ == LeafType::kFloat ? literal.as_float : literal.number);
  if (const auto* whole = std::get_if<uint64_t>(&value)) {
    if (literal.is_unsigned) return three_way(*whole, literal.unsigned_integer);
    return three_way(static_cast<double>(*whole), literal.number);
  }
  const int64_t integer = std::get<int64_t>(value);
  if (!literal.is_number)
    return literal.moment ? three_way(moment_of(integer, values_), *literal.moment)
                          : three_way(integer, int64_t{literal.truth});
  if (literal.is_integer) return three_way(integer, literal.integer);
  return three_way(static_cast<double>(integer), literal.number);
}

bool RowFilter::keeps(const ValueBounds::Value& value) const {
  const auto equals_any = [&] {
    return std::any_of(literals_.begin(), literals_.end(),
                       [&](const Literal& literal) { return compare(value, literal) == 0; });
  };
  switch (op_) {
    case Operator::kEqual:
      return compare(value, literals_[0]) == 0;
    case Operator::kNotEqual:
      return compare(value, literals_[0]) != 0;
    case Operator::kLess:
      return compare(value, literals_[0]) < 0;
    case Operator::kAtMost:
      return compare(value, literals_[0]) <= 0;
    case Operator::kMore:
      return compare(value, literals_[0]) > 0;
    case Operator::kAtLeast:
      return compare(value, literals_[0]) >= 0;
    case Operator::kIn:
      return equals_any();
    case Operator::kNotIn:
      break;
  }
  return !equals_any();
}

bool RowFilter::keeps(const Column& column, int64_t row) const {
  const auto at = static_cast<size_t>(row);
  ValueBounds::Value value;
  switch (column.type) {
    case ColumnType::kInt64:
      if (column.is_marked_missing(at) || missing_.is_missing_value(column.ints[at])) return false;
      value = column.ints[at];
      if (leaf_ == LeafType::kUnsigned) value = static_cast<uint64_t>(column.ints[at]);
      break;
    case ColumnType::kFloat:
      value = static_cast<double>(column.floats[at]);
      if (missing_.is_missing_value(std::get<double>(value))) return false;
      break;
    case ColumnType::kText: {
      const std::string_view text = text_at(column, at);
      if (text.empty() || missing_.is_missing(text, ColumnRequest())) return false;
      if (leaf_ != LeafType::kDouble) return keeps(ValueBounds::Value(std::string(text)));
      double number = 0;
      if (!parse_double(text, number)) return false;
      value = number;
      break;
    }
  }
  return !is_missing(value) && keeps(value);
}

bool RowFilter::may_keep(const ValueBounds& bounds) const {
  if (bounds.all_missing) return false;
  switch (op_) {
    case Operator::kLess:
    case Operator::kAtMost:
      return keeps(bounds.smallest);
    case Operator::kMore:
    case Operator::kAtLeast:
      return keeps(bounds.largest);
    case Operator::kEqual:
    case Operator::kIn:
      return std::any_of(literals_.begin(), literals_.end(), [&](const Literal& literal) {
        return compare(bounds.smallest, literal) <= 0 && compare(bounds.largest, literal) >= 0;
      });
    case Operator::kNotEqual:
    case Operator::kNotIn:
      break;
  }
  // Bounds of text may be cut short.
  return std::holds_alternative<std::string>(bounds.smallest) ||
         bounds.smallest != bounds.largest || keeps(bounds.smallest);
}

std::vector<RowFilter> row_filters(const std::vector<std::string>& conditions) {
  std::vector<RowFilter> filters;
  for (const std::string& condition : conditions) filters.emplace_back(condition);
  return filters;
}

int find_column(const std::vector<ColumnSpec>& columns, const RowFilter& filter,
                const std::string& source) {
  return find_column(columns, filter.column(),
                     cat("the filter ", in_quotes(filter.text()), ": ", source));
}

}  // namespace emblem
