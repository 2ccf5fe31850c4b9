// data/feature/fg/test_operator.h - operators applied to columns that are written as text.
#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/feature/fg/cells.h"
#include "data/feature/fg/operator.h"
#include "emblem/error.h"

namespace emblem {

// What one input holds: a text for each row; a missing value is "". With a sequence_delim, rows
// are sequences.
struct TestInput {
  std::vector<std::string> rows;
  std::string sequence_delim{};
  bool is_constant = false;
};

inline TestInput constant(const std::string& text) { return {{text}, "", true}; }

using Bag = std::vector<std::string>;  // the values of a cell, as text

struct TestOutput {
  std::vector<Bag> cells;
  std::vector<int32_t> sequence_offsets;
  std::vector<std::string> problems;  // "2: what is wrong" for row 2
  ColumnType type = ColumnType::kText;
};

inline std::vector<std::string> parts_of(const std::string& text, const std::string& separators) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = separators.empty()
                           ? text.size()
                           : std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

inline Column column_of(const TestInput& input, const FgInput& wanted) {
  Column column;
  CellWriter writer(column, wanted.type);
  std::vector<int32_t> ends = {0};
  int32_t elements = 0;
  for (const std::string& row : input.rows) {
    for (const std::string& element : parts_of(row, input.sequence_delim)) {
      for (const std::string& value : parts_of(element, wanted.separators)) {
        float number = 0;
        if (wanted.type == ColumnType::kText)
          writer.add(value);
        else
          writer.add(parse_float(value, number) ? number : kMissing);
      }
      writer.end_cell();
      ++elements;
    }
    ends.push_back(elements);
  }
  if (!input.sequence_delim.empty()) column.sequence_offsets.assign(ends.begin(), ends.end());
  return column;
}

// `text` is a FeatureConfig.
inline FeatureSpec spec_of(const std::string& text, const std::vector<TestInput>& inputs) {
  FeatureSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec.config)) << text;
  spec.name = "f";
  for (const TestInput& input : inputs) {
    if (input.is_constant)
      spec.inputs.push_back({FeatureInput::Source::kConstant, input.rows[0]});
    else
      spec.inputs.push_back({FeatureInput::Source::kColumn, "column"});
  }
  return spec;
}

inline TestOutput read_output(const Column& out, int64_t rows) {
  TestOutput result;
  result.type = out.type;
  result.sequence_offsets.assign(out.sequence_offsets.begin(), out.sequence_offsets.end());
  const Column* const columns[] = {&out};
  const Cells cells = cells_of(columns, rows);
  const CellReader reader(out, cells, false);
  std::string buffer;
  for (int64_t cell = 0; cell < cells.count; ++cell) {
    const ValueRange range = reader.values(cell);
    Bag bag;
    for (size_t at = range.begin; at < range.end; ++at) bag.emplace_back(reader.text(at, buffer));
    result.cells.push_back(std::move(bag));
  }
  return result;
}

inline TestOutput apply_operator(const std::string& text, const std::vector<TestInput>& inputs) {
  const std::unique_ptr<FgOperator> made = make_operator(spec_of(text, inputs));
  std::vector<Column> columns;
  for (size_t i = 0; i < inputs.size(); ++i)
    columns.push_back(column_of(inputs[i], made->inputs()[i]));
  std::vector<const Column*> pointers;
  int64_t rows = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    pointers.push_back(inputs[i].is_constant ? nullptr : &columns[i]);
    if (!inputs[i].is_constant) rows = static_cast<int64_t>(inputs[i].rows.size());
  }
  Column out;
  std::vector<std::string> problems;
  made->apply(pointers, rows, out, [&](int64_t row, const std::string& problem) {
    problems.push_back(cat(row, ": ", problem));
  });
  TestOutput result = read_output(out, rows);
  result.problems = std::move(problems);
  return result;
}

// The message of the Error that making it throws; "" when it throws none.
inline std::string error_of_operator(const std::string& text, size_t inputs) {
  try {
    make_operator(spec_of(text, std::vector<TestInput>(inputs)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace emblem
