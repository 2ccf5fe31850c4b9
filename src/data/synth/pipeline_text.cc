#include "data/synth/pipeline_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace emblem {
namespace {

constexpr int kDigits = 4;  // after the point

void append_integer(int64_t value, std::string& text) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_number(double value, std::string& text) {
  const double scale = std::pow(10.0, kDigits);
  char digits[40];
  text.append(digits, std::to_chars(digits, digits + sizeof digits,
                                    std::round(value * scale) / scale, std::chars_format::fixed)
                          .ptr);
}

// A field in quotes where its text would be read as more than one, or as quotes.
void append_field(const std::string& field, const std::string& delimiter, std::string& text) {
  if (field.find_first_of(delimiter + "\"\n\r") == std::string::npos) {
    text += field;
    return;
  }
  text += '"';
  for (const char c : field) {
    if (c == '"') text += '"';
    text += c;
  }
  text += '"';
}

// The middle of the interval between boundaries that a deviation stands for.
double number_between(const std::vector<float>& boundaries, double deviation) {
  const size_t intervals = boundaries.size() + 1;
  const double place = (deviation / kRoot12 + 0.5) * static_cast<double>(intervals);
  const auto interval = std::min(static_cast<size_t>(std::max(0.0, place)), intervals - 1);
  const double first = static_cast<double>(boundaries.front());
  const double last = static_cast<double>(boundaries.back());
  const double margin = std::max(1.0, 0.05 * (last - first));
  if (interval == 0) return first - margin;
  if (interval == boundaries.size()) return last + margin;
  return (static_cast<double>(boundaries[interval - 1]) +
          static_cast<double>(boundaries[interval])) /
         2;
}

class FieldWriter {
 public:
  FieldWriter(const PipelineSchema& schema, const PipelineTruth& truth, const PipelineRow& row)
      : schema_(schema), truth_(truth), row_(row) {}

  void write(size_t at, std::string& field) const {
    const PipelineColumn& column = schema_.columns[at];
    const PipelineValues& values = row_.columns[at];
    const size_t count = std::max(values.ranks.size(), values.numbers.size());
    const std::string& between = column.sequence >= 0 ? column.sequence_delim : column.separator;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) field += column.form == PipelineColumn::Form::kNestedMap ? "|" : between;
      append_value(column, values, i, field);
    }
  }

 private:
  void append_value(const PipelineColumn& column, const PipelineValues& values, size_t i,
                    std::string& field) const {
    switch (column.form) {
      case PipelineColumn::Form::kIds:
        append_id(column.domain, values.ranks[i], field);
        if (!column.is_weighted) return;
        field += ':';
        return append_number(values.numbers[i], field);
      case PipelineColumn::Form::kNumbers:
        return append_scaled(column, values.numbers[i], field);
      case PipelineColumn::Form::kMap:
        append_id(column.domain, values.ranks[i], field);
        field += ':';
        return append_map_value(column, values.numbers[i], field);
      case PipelineColumn::Form::kNestedMap:
        append_id(column.domain, values.ranks[i], field);
        field += '^';
        return append_inner(column, values.numbers[i], field);
      case PipelineColumn::Form::kMask:
        field += values.numbers[i] > 0 ? "true" : "false";
        return;
      case PipelineColumn::Form::kPhrase:
        break;
    }
    append_phrase(values.numbers[i], field);
  }

  void append_id(size_t domain, int64_t rank, std::string& field) const {
    const PipelineDomain& ids = schema_.domains[domain];
    const int64_t number = truth_.number_of(domain, rank);
    if (ids.form == PipelineDomain::Form::kWord) {
      field += ids.words[static_cast<size_t>(number)];
      return;
    }
    if (ids.form == PipelineDomain::Form::kText) field += 'v';
    append_integer(number, field);
  }

  static void append_scaled(const PipelineColumn& column, double deviation, std::string& field) {
    if (column.are_dates)  // within two years around 2024
      return append_integer(static_cast<int64_t>(1.71e9 + 1.5e7 * deviation), field);
    if (column.are_counts)
      return append_integer(static_cast<int64_t>(std::exp(1.5 + 1.2 * deviation)), field);
    if (!column.boundaries.empty())
      return append_number(number_between(column.boundaries, deviation), field);
    const double middle = (column.low + column.high) / 2, half = (column.high - column.low) / 2;
    append_number(std::clamp(middle + deviation * half / 2, column.low, column.high), field);
  }

  static void append_map_value(const PipelineColumn& column, double deviation, std::string& field) {
    const double part = std::clamp(deviation / 6 + 0.5, 0.0, 0.999);
    const double value = part * static_cast<double>(column.value_limit);
    for (int64_t k = 0; k < column.values_per_key; ++k) {
      if (k > 0) field += column.value_separator;
      if (column.values_are_integers)
        append_integer(static_cast<int64_t>(value), field);
      else
        append_number(value + static_cast<double>(k), field);
    }
  }

  // The id that is looked up, and the next.
  void append_inner(const PipelineColumn& column, double deviation, std::string& field) const {
    const size_t domain = schema_.columns[column.inner_key].domain;
    const std::vector<int64_t>& ranks = row_.columns[column.inner_key].ranks;
    const int64_t first = ranks.empty() ? 0 : ranks[0];
    const int64_t second = (first + 1) % schema_.domains[domain].values;
    append_id(domain, first, field);
    field += ':';
    append_map_value(column, deviation, field);
    if (second == first) return;
    field += ',';
    append_id(domain, second, field);
    field += ':';
    append_map_value(column, -deviation, field);
  }

  static void append_phrase(double deviation, std::string& field) {
    static constexpr const char* kWords[] = {"red", "blue", "new", "warm", "shirt", "shoe", "hat"};
    auto bits = static_cast<uint64_t>(std::fabs(deviation) * 1e6);
    for (int i = 0; i < 3; ++i, bits /= 7) field.append(i == 0 ? "" : " ").append(kWords[bits % 7]);
  }

  const PipelineSchema& schema_;
  const PipelineTruth& truth_;
  const PipelineRow& row_;
};

}  // namespace

std::string csv_header(const PipelineSchema& schema) {
  std::string text;
  const auto add = [&](const std::string& name) {
    if (!text.empty()) text += schema.delimiter;
    append_field(name, schema.delimiter, text);
  };
  for (const PipelineLabel& label : schema.labels)
    if (label.column < 0) add(label.name);
  for (const std::string& name : schema.weight_fields) add(name);
  for (const PipelineColumn& column : schema.columns) add(column.name);
  return text + "\n";
}

void write_fields(const PipelineSchema& schema, const PipelineTruth& truth, const PipelineRow& row,
                  std::vector<std::string>& fields) {
  size_t count = 0;
  const auto next = [&]() -> std::string& {
    if (count == fields.size()) fields.emplace_back();
    fields[count].clear();
    return fields[count++];
  };
  for (size_t i = 0; i < row.labels.size(); ++i) {
    if (schema.labels[i].column >= 0) continue;
    if (schema.labels[i].kind == LabelKind::kNumber)
      append_number(row.labels[i], next());
    else
      append_integer(static_cast<int64_t>(row.labels[i]), next());
  }
  for (const double weight : row.weights) append_number(weight, next());
  const FieldWriter writer(schema, truth, row);
  for (size_t i = 0; i < schema.columns.size(); ++i) writer.write(i, next());
}

void append_csv(const PipelineSchema& schema, const PipelineTruth& truth, const PipelineRow& row,
                std::string& text) {
  std::vector<std::string> fields;
  write_fields(schema, truth, row, fields);
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) text += schema.delimiter;
    append_field(fields[i], schema.delimiter, text);
  }
  text += '\n';
}

}  // namespace emblem
