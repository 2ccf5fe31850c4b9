#include "data/format/rows/column_fit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/text/text.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/date_text.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

const HostVector<int32_t>& row_offsets(const Column& column) {
  return column.sequence_offsets.empty() ? column.offsets : column.sequence_offsets;
}

// The row of value or element `at`.
int64_t row_of(const HostVector<int32_t>& offsets, int64_t at) {
  if (offsets.empty()) return at;
  return std::upper_bound(offsets.begin(), offsets.end(), at) - offsets.begin() - 1;
}

// Takes back what was added after there were `values` values and `bags` bags.
void truncate(size_t values, size_t bags, Column& column) {
  column.resize_values(values);
  column.weights.resize(std::min(column.weights.size(), values));
  column.offsets.resize(bags + 1);
}

const char* requested_kind(const ColumnRequest& request) {
  if (request.has_bags()) return "values or a list of them";
  return request.type == ColumnType::kText ? "one value per row" : "one number per row";
}

}  // namespace

ValueType ColumnarField::values() const {
  switch (type) {
    case LeafType::kInteger: {
      if (stored == "null") return {};
      const ValueType named = value_type_stored_as(stored);
      return named.kind == ValueKind::kUnknown ? ValueType{ValueKind::kInteger} : named;
    }
    case LeafType::kUnsigned:
      return {ValueKind::kInteger};
    case LeafType::kFloat:
      return {ValueKind::kFloat};
    case LeafType::kDouble:
      return {ValueKind::kDouble};
    case LeafType::kText:
      return {ValueKind::kText};
    case LeafType::kOther:
      break;
  }
  return {};
}

namespace {

// The type for computations, or for copies.
ColumnType natural_type(LeafType leaf, NaturalTypes natural) {
  switch (leaf) {
    case LeafType::kInteger:
    case LeafType::kUnsigned:
      return ColumnType::kInt64;
    case LeafType::kFloat:
      return ColumnType::kFloat;
    case LeafType::kDouble:
      return natural == NaturalTypes::kExact ? ColumnType::kText : ColumnType::kFloat;
    case LeafType::kText:
    case LeafType::kOther:
      break;
  }
  return ColumnType::kText;
}

}  // namespace

ColumnFit::ColumnFit(const ColumnarField& field, const ColumnRequest* request,
                     const std::vector<std::string>& na_strings, const std::string& source,
                     NaturalTypes natural)
    : field_(field),
      is_natural_(request == nullptr),
      missing_(na_strings),
      has_na_strings_(!na_strings.empty()),
      type_(natural_type(field.type, natural)) {
  EMBLEM_REQUIRE(field.type != LeafType::kOther, source, ": column ", in_quotes(field.name), " is ",
                 field.type_text,
                 "; expected numbers, text, dates, times, or lists or maps of these");
  if (is_natural_) return;
  trained_.emplace(field, *request, source);
  request_ = *request;
  value_request_ = *request;
  value_request_.separators.clear();
  value_request_.sequence_delim.clear();
  type_ = field.type == LeafType::kText ? request->type : trained_->type();
  reads_dates_ = request->number_form.is_date() && field.type != LeafType::kText;
  EMBLEM_REQUIRE(!reads_dates_ || field.type != LeafType::kFloat, source, ": column ",
                 in_quotes(field.name), " is ", field.type_text,
                 "; expected dates, timestamps, whole numbers or text, as date_part needs");
  if (request->label == LabelText::kPositive && field.type != LeafType::kText)
    set_positive(*request, source);
  EMBLEM_REQUIRE(field.lists < 2 || !request->sequence_delim.empty(), source, ": column ",
                 in_quotes(field.name), " is ", field.type_text, "; expected ",
                 requested_kind(*request), " (lists of lists are read by features of sequences)");
}

void ColumnFit::set_positive(const ColumnRequest& request, const std::string& source) {
  float number = 0;
  bool is_number = parse_float(request.label_positive, number) && !std::isnan(number);
  if (!is_number && field_.type_text == "bool")
    is_number = parse_label_word(without_spaces(request.label_positive), number);
  EMBLEM_REQUIRE(is_number, "data_config.label_positive is ", in_quotes(request.label_positive),
                 ", but column ", in_quotes(field_.name), " of ", source, " is ", field_.type_text,
                 "; expected one of its values");
  positive_ = number;
}

void ColumnFit::replace_labels(Column& column) const {
  for (float& value : column.floats)
    if (!std::isnan(value)) value = value == *positive_ ? 1.0f : 0.0f;
}

ColumnRead ColumnFit::read(int field) const {
  ColumnRead read{field, is_natural_ ? type_ : trained_->read_type()};
  if (reads_dates_) read.type = ColumnType::kInt64;
  read.exact = is_natural_ ? field_.type == LeafType::kDouble && type_ == ColumnType::kText
                           : trained_->reads_all_digits();
  read.codes = !is_natural_ && request_.codes && field_.type == LeafType::kText &&
               type_ == ColumnType::kText && !request_.weighted && !has_na_strings_;
  return read;
}

ColumnSpec ColumnFit::spec() const {
  ColumnSpec spec{field_.name,     type_,         field_.lists,
                  field_.weighted, field_.stored, field_.values()};
  if (field_.type == LeafType::kDouble && type_ != ColumnType::kText) spec.stored.clear();
  return spec;
}

std::string ColumnFit::message(const std::string& problem) const {
  return cat("column ", printable(field_.name), ": ", problem);
}

void ColumnFit::apply(int64_t rows, Column& column, std::vector<ValueProblem> value_problems,
                      Column& scratch, std::vector<RowProblem>& problems) const {
  if (trained_ && field_.type != LeafType::kText) trained_->apply(column, value_problems);
  for (const ValueProblem& problem : value_problems) {
    int64_t at = problem.value;
    if (!column.sequence_offsets.empty()) at = row_of(column.offsets, at);
    problems.emplace_back(row_of(row_offsets(column), at), message(problem.what));
  }
  if (is_natural_) return;
  if (has_na_strings_ && field_.type != LeafType::kText) mark_missing(column);
  if (reads_dates_) take_date_parts(column);
  if (!request_.weighted) column.weights.clear();
  if (positive_) replace_labels(column);
  if (field_.type == LeafType::kText && must_parse(column)) {
    expand_codes(column);
    parse(rows, column, scratch, problems);
  } else {
    shape(rows, column, scratch, problems);
  }
}

void ColumnFit::mark_missing(Column& column) const {
  for (float& value : column.floats)
    if (missing_.is_missing_value(static_cast<double>(value))) value = kMissing;
  for (size_t i = 0; i < column.ints.size(); ++i) {
    if (column.is_marked_missing(i) || !missing_.is_missing_value(column.ints[i])) continue;
    column.missing.resize(column.ints.size(), 0);
    column.missing[i] = 1;
    column.ints[i] = 0;
  }
  std::string text;
  for (size_t i = 0, begin = 0; i < column.text_ends.size(); ++i) {
    const std::string_view value(column.text.data() + begin, column.text_ends[i] - begin);
    begin = column.text_ends[i];
    if (!missing_.is_missing(value, request_)) text += value;
    column.text_ends[i] = static_cast<uint32_t>(text.size());
  }
  if (column.type == ColumnType::kText) column.text = std::move(text);
}

void ColumnFit::take_date_parts(Column& column) const {
  const int64_t units = units_in_a_day(field_.stored);
  column.type = ColumnType::kFloat;
  column.floats.resize(column.ints.size());
  for (size_t i = 0; i < column.ints.size(); ++i) {
    const bool is_missing = column.is_marked_missing(i);
    const DateTime date =
        units > 0 ? date_of_units(column.ints[i], units) : date_of_number(column.ints[i]);
    column.floats[i] = is_missing ? kMissing : date_number(date, request_.number_form.part);
  }
  column.ints.clear();
  column.missing.clear();
}

bool ColumnFit::has_separators(std::string_view text) const {
  if (text.empty()) return false;
  if (!request_.sequence_delim.empty() && field_.lists == 0) return true;
  // The values of a list are whole, unless they are elements that hold several.
  if (field_.lists == 1 && request_.sequence_delim.empty()) return false;
  if (field_.lists == 2) return false;
  return std::any_of(request_.separators.begin(), request_.separators.end(), [&](char separator) {
    return std::memchr(text.data(), separator, text.size()) != nullptr;
  });
}

bool ColumnFit::must_parse(const Column& column) const {
  if (type_ != ColumnType::kText || has_na_strings_) return true;
  if (request_.declared && request_.declared != config::STRING) return true;
  if (request_.weighted && !field_.weighted) return true;
  if (is_spelled_otherwise(request_.trained, column)) return true;
  if (column.dictionary == nullptr) return has_separators(column.text);
  std::optional<bool>& known = column.dictionary->has_separators;
  if (!known) known = has_separators(column.dictionary->text);
  return *known;
}

void ColumnFit::parse(int64_t rows, Column& column, Column& scratch,
                      std::vector<RowProblem>& problems) const {
  scratch.clear(type_);
  if (field_.lists == 0) {
    parse_fields(rows, column, scratch, problems);
    return std::swap(column, scratch);
  }
  const bool holds_bags =
      (request_.weighted && !field_.weighted) || has_separators(std::string_view(column.text));
  if (holds_bags && field_.lists == 1) {
    parse_bags(rows, column, scratch, problems);
    return std::swap(column, scratch);
  }
  parse_values(column, scratch, problems);
  std::swap(scratch.weights, column.weights);
  std::swap(scratch.offsets, column.offsets);
  std::swap(scratch.sequence_offsets, column.sequence_offsets);
  std::swap(column, scratch);
  shape(rows, column, scratch, problems);
}

// One value of text a row: read as a field of a CSV file.
void ColumnFit::parse_fields(int64_t rows, const Column& from, Column& to,
                             std::vector<RowProblem>& problems) const {
  const bool bags = request_.has_bags();
  const size_t fixed = bags ? 0 : static_cast<size_t>(rows);
  if (type_ == ColumnType::kFloat) to.floats.resize(fixed);
  if (type_ == ColumnType::kInt64) {
    to.ints.resize(fixed);
    to.missing.resize(fixed);
  }
  if (bags) to.offsets.push_back(0);
  if (!request_.sequence_delim.empty()) to.sequence_offsets.push_back(0);
  const CsvFieldParser parser(request_, missing_, to);
  for (int64_t row = 0; row < rows; ++row) {
    const size_t values = values_in(to), ends = to.offsets.empty() ? 0 : to.offsets.size() - 1;
    const std::string problem = parser.add(text_at(from, static_cast<size_t>(row)), row);
    if (problem.empty()) continue;
    problems.emplace_back(row, message(problem));
    if (bags) truncate(values, ends, to);
    parser.add("", row);
  }
  if (bags) {
    drop_plain_offsets(to);
  } else {
    drop_missing_if_none(to);
  }
}

// Lists of text: every value on its own.
void ColumnFit::parse_values(const Column& from, Column& to,
                             std::vector<RowProblem>& problems) const {
  const size_t count = values_in(from);
  if (type_ == ColumnType::kFloat) to.floats.resize(count);
  if (type_ == ColumnType::kInt64) {
    to.ints.resize(count);
    to.missing.resize(count);
  }
  const CsvFieldParser parser(value_request_, missing_, to);
  for (size_t i = 0; i < count; ++i) {
    const std::string problem = parser.add(text_at(from, i), static_cast<int64_t>(i));
    if (problem.empty()) continue;
    auto at = static_cast<int64_t>(i);
    if (!from.sequence_offsets.empty()) at = row_of(from.offsets, at);
    problems.emplace_back(row_of(row_offsets(from), at), message(problem));
    if (type_ == ColumnType::kText) continue;
    parser.add("", static_cast<int64_t>(i));
  }
  drop_missing_if_none(to);
}

// A list of text whose values are bags, or are weighted.
void ColumnFit::parse_bags(int64_t rows, const Column& from, Column& to,
                           std::vector<RowProblem>& problems) const {
  const CsvFieldParser parser(request_, missing_, to);
  const bool is_sequence = !request_.sequence_delim.empty();
  to.offsets.push_back(0);
  if (is_sequence) to.sequence_offsets.push_back(0);
  for (int64_t row = 0; row < rows; ++row) {
    for (int32_t i = from.offsets[row]; i < from.offsets[row + 1]; ++i) {
      const size_t values = values_in(to), bags = to.offsets.size() - 1;
      const std::string problem = parser.add_values(text_at(from, static_cast<size_t>(i)));
      if (!problem.empty()) {
        problems.emplace_back(row, message(problem));
        truncate(values, bags, to);
      }
      if (is_sequence) parser.end_bag();
    }
    if (is_sequence) {
      parser.end_sequence();
    } else {
      parser.end_bag();
    }
  }
}

void ColumnFit::shape(int64_t rows, Column& column, Column& scratch,
                      std::vector<RowProblem>& problems) const {
  if (!request_.sequence_delim.empty()) return make_sequence(rows, column);
  if (field_.lists == 1 && !request_.has_bags())
    return take_single_values(rows, column, scratch, problems);
  if (field_.lists == 1) drop_plain_offsets(column);
}

// A list's values are the elements; so is a value of its own, unless it is missing.
void ColumnFit::make_sequence(int64_t rows, Column& column) const {
  if (field_.lists == 2) return;
  if (field_.lists == 1) {
    std::swap(column.sequence_offsets, column.offsets);
    return;
  }
  const bool any_missing = column.type != ColumnType::kInt64 || !column.missing.empty();
  expand_codes(column);
  column.sequence_offsets.resize(static_cast<size_t>(rows + 1));
  if (!any_missing) {
    for (int64_t i = 0; i <= rows; ++i) column.sequence_offsets[i] = static_cast<int32_t>(i);
    return;
  }
  size_t kept = 0;
  column.sequence_offsets[0] = 0;
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    const bool is_missing = is_missing_at(column, i);
    if (column.type == ColumnType::kInt64) {
      column.ints[kept] = column.ints[i];
    } else if (column.type == ColumnType::kFloat) {
      column.floats[kept] = column.floats[i];
    } else {
      column.text_ends[kept] = column.text_ends[i];
    }
    kept += is_missing ? 0 : 1;
    column.sequence_offsets[i + 1] = static_cast<int32_t>(kept);
  }
  column.missing.clear();
  column.resize_values(kept);
}

void ColumnFit::take_single_values(int64_t rows, Column& column, Column& scratch,
                                   std::vector<RowProblem>& problems) const {
  expand_codes(column);
  scratch.clear(column.type);
  const auto count = static_cast<size_t>(rows);
  if (column.type == ColumnType::kFloat) scratch.floats.resize(count);
  if (column.type == ColumnType::kInt64) {
    scratch.ints.resize(count);
    scratch.missing.resize(count);
  }
  for (size_t row = 0; row < count; ++row) {
    const int32_t begin = column.offsets[row];
    const int32_t found = column.offsets[row + 1] - begin;
    if (found > 1)
      problems.emplace_back(row, message(cat("a list of ", found, " values; expected one value")));
    const auto at = static_cast<size_t>(begin);
    if (column.type == ColumnType::kFloat) {
      scratch.floats[row] = found == 1 ? column.floats[at] : kMissing;
    } else if (column.type == ColumnType::kInt64) {
      scratch.missing[row] = found != 1 || column.is_marked_missing(at);
      scratch.ints[row] = scratch.missing[row] != 0 ? 0 : column.ints[at];
    } else {
      if (found == 1) scratch.text += text_at(column, at);
      scratch.text_ends.push_back(static_cast<uint32_t>(scratch.text.size()));
    }
  }
  drop_missing_if_none(scratch);
  std::swap(column, scratch);
}

}  // namespace emblem
