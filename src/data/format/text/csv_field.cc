#include "data/format/text/csv_field.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "data/format/columnar/declared_type.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

// Whether a label has a value: the same text, or the same number (1 and 1.0).
bool is_label(std::string_view text, std::string_view value) {
  if (text == value) return true;
  double one = 0, other = 0;
  return parse_double(text, one) && parse_double(value, other) && one == other;
}

}  // namespace

bool parse_label_word(std::string_view text, float& value) {
  for (const std::string_view word : {"true", "t", "yes", "y"}) {
    if (!equals_ignoring_case(text, word)) continue;
    value = 1;
    return true;
  }
  for (const std::string_view word : {"false", "f", "no", "n"}) {
    if (!equals_ignoring_case(text, word)) continue;
    value = 0;
    return true;
  }
  return false;
}

MissingTexts::MissingTexts(const std::vector<std::string>& configured)
    : in_numbers_(configured), in_ids_(configured) {
  if (configured.empty()) in_numbers_ = defaults();
  for (const std::string& text : configured) {
    int64_t integer = 0;
    double number = 0;
    if (parse_integer(text, integer)) integers_.push_back(integer);
    if (parse_double(text, number) && !std::isnan(number)) numbers_.push_back(number);
  }
}

bool MissingTexts::is_missing_value(int64_t value) const {
  return std::find(integers_.begin(), integers_.end(), value) != integers_.end();
}

// Numbers are compared as floats, which columns hold.
bool MissingTexts::is_missing_value(double value) const {
  return std::any_of(numbers_.begin(), numbers_.end(), [&](double missing) {
    return static_cast<float>(missing) == static_cast<float>(value);
  });
}

std::vector<std::string> MissingTexts::defaults() {
  return {"NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "NaN", "nan", "\\N"};
}

bool MissingTexts::contains(const std::vector<std::string>& texts, std::string_view text) {
  if (texts.empty()) return false;
  return std::find(texts.begin(), texts.end(), without_spaces(text)) != texts.end();
}

std::string CsvFieldParser::add(std::string_view text, int64_t row) const {
  if (!request_.sequence_delim.empty()) {
    std::string problem = add_elements(text);
    if (problem.empty()) end_sequence();
    return problem;
  }
  if (!request_.separators.empty()) {
    std::string problem = add_values(text);
    if (problem.empty()) end_bag();
    return problem;
  }
  if (std::string problem = contradiction(text); !problem.empty()) return problem;
  std::string buffer;
  if (std::string problem = as_trained(text, buffer); !problem.empty()) return problem;
  switch (request_.type) {
    case ColumnType::kFloat:
      if (!parse_number(text, column_.floats[row])) return not_a_number(text);
      break;
    case ColumnType::kInt64:
      column_.missing[row] = text.empty() || (missing_.are_configured() && is_missing(text));
      column_.ints[row] = 0;
      if (column_.missing[row] != 0 || parse_key(text, column_.ints[row])) break;
      column_.missing[row] = is_missing(text);
      if (column_.missing[row] == 0) return not_a_key(text);
      break;
    case ColumnType::kText:
      add_text(is_missing(text) ? std::string_view() : text);
      break;
  }
  return {};
}

std::string CsvFieldParser::add_values(std::string_view text) const {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(request_.separators), text.size());
    std::string problem = add_value(text.substr(0, end));
    if (!problem.empty()) return problem;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

void CsvFieldParser::end_bag() const {
  column_.offsets.push_back(static_cast<int32_t>(values_in(column_)));
}

std::string CsvFieldParser::add_elements(std::string_view text) const {
  if (text.empty() || is_missing(text)) return {};
  const std::string_view delim = request_.sequence_delim;
  while (true) {
    const size_t end = text.find(delim);
    std::string problem = add_values(text.substr(0, end));
    if (!problem.empty()) return problem;
    end_bag();
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + delim.size());
  }
}

void CsvFieldParser::end_sequence() const {
  column_.sequence_offsets.push_back(static_cast<int32_t>(column_.offsets.size()) - 1);
}

std::string CsvFieldParser::add_value(std::string_view text) const {
  // Numbers stay in their place, so that a vector of them keeps its width.
  if (text.empty()) return {};
  if (request_.type != ColumnType::kFloat && is_missing(text)) return {};
  if (request_.weighted) {
    const size_t colon = text.rfind(':');
    float weight = 0;
    if (colon == std::string_view::npos || !parse_float(text.substr(colon + 1), weight) ||
        std::isnan(weight)) {
      return cat(in_quotes(text), " is not a weighted value (expected \"key:weight\")");
    }
    column_.weights.push_back(weight);
    text = text.substr(0, colon);
  }
  if (std::string problem = contradiction(text); !problem.empty()) return problem;
  const bool has_text = !text.empty();
  std::string buffer;
  if (std::string problem = as_trained(text, buffer); !problem.empty()) return problem;
  if (has_text && text.empty()) {  // it was missing in training
    if (request_.weighted) column_.weights.pop_back();
    return {};
  }
  switch (request_.type) {
    case ColumnType::kFloat:
      column_.floats.push_back(0);
      if (!parse_number(text, column_.floats.back())) return not_a_number(text);
      break;
    case ColumnType::kInt64:
      column_.ints.push_back(0);
      if (!parse_key(text, column_.ints.back())) return not_a_key(text);
      break;
    case ColumnType::kText:
      add_text(text);
      break;
  }
  return {};
}

std::string CsvFieldParser::contradiction(std::string_view text) const {
  // A column that is read as integers has messages of its own.
  if (!request_.declared || request_.type == ColumnType::kInt64) return {};
  std::string problem = declared_value_problem(*request_.declared, text);
  const bool is_value = !problem.empty() && !is_missing(text) && !missing_.is_missing_number(text);
  return is_value ? problem : std::string();
}

std::string CsvFieldParser::as_trained(std::string_view& text, std::string& buffer) const {
  const TrainedValues& trained = request_.trained;
  const bool may_change =
      request_.type == ColumnType::kText ? trained.changes_text() : trained.has_words();
  if (!may_change || text.empty() || is_missing(text)) return {};
  switch (respell(trained, text, buffer)) {
    case Respelled::kSame:
      break;
    case Respelled::kChanged:
      text = buffer;
      break;
    case Respelled::kMissing:
      text = {};
      break;
    case Respelled::kRefused:
      return buffer;
  }
  return {};
}

void CsvFieldParser::add_text(std::string_view text) const {
  column_.text.append(text);
  column_.text_ends.push_back(static_cast<uint32_t>(column_.text.size()));
}

bool CsvFieldParser::parse_number(std::string_view text, float& value) const {
  if (request_.label == LabelText::kPositive) {
    text = without_spaces(text);
    const bool positive = is_label(text, without_spaces(request_.label_positive));
    value = positive ? 1.0f : text.empty() || is_missing(text) ? kMissing : 0.0f;
    return true;
  }
  const bool has_texts = missing_.are_configured() || !request_.number_form.na_strings.empty();
  if (has_texts && is_missing(text)) {
    value = kMissing;
    return true;
  }
  if (request_.number_form.is_plain() ? parse_any_float(text, value)
                                      : parse_number_form(text, request_.number_form, value)) {
    const bool is_number = !request_.number_form.is_date();
    if (is_number && missing_.is_missing_value(static_cast<double>(value))) value = kMissing;
    return true;
  }
  if (request_.label == LabelText::kWords && parse_label_word(without_spaces(text), value))
    return true;
  value = kMissing;
  return is_missing(text);
}

bool CsvFieldParser::parse_key(std::string_view text, int64_t& key) const {
  return request_.hexadecimal ? parse_hexadecimal(text, key) : parse_integer(text, key);
}

std::string CsvFieldParser::not_a_number(std::string_view text) const {
  if (request_.label == LabelText::kWords)
    return cat(in_quotes(text),
               " is not a label (expected a number, true, false, yes or no; for other text set "
               "data_config.label_positive)");
  const bool is_plain = request_.number_form.is_plain();
  return cat(
      in_quotes(text), is_plain ? " is not a number" : " cannot be read", " (expected ",
      is_plain ? "a decimal number" : expected_of(request_.number_form), " or an empty field",
      request_.na_is_missing ? "; data_config.na_strings lists texts for missing values)" : ")");
}

std::string CsvFieldParser::not_a_key(std::string_view text) const {
  if (request_.hexadecimal)
    return cat(in_quotes(text),
               " is not a category (expected a hexadecimal number or an empty field)");
  return cat(in_quotes(text),
             " is not an integer (expected a whole number of 64 bits or an empty field; ",
             request_.advice.empty() ? "text needs input_type: STRING" : request_.advice, ")");
}

}  // namespace emblem
