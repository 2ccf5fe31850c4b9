#include "data/format/text/line_parser.h"

#include "core/text/text.h"
#include "data/format/text/csv_types.h"

namespace emblem {

void LineParser::begin_block(int64_t rows, Block& block) const {
  block.columns.resize(requests_.size());
  for (size_t i = 0; i < requests_.size(); ++i) {
    Column& column = block.columns[i];
    const ColumnRequest& request = requests_[i];
    const size_t fixed = request.has_bags() ? 0 : static_cast<size_t>(rows);
    column.type = request.type;
    column.floats.resize(request.type == ColumnType::kFloat ? fixed : 0);
    column.ints.resize(request.type == ColumnType::kInt64 ? fixed : 0);
    column.missing.resize(request.type == ColumnType::kInt64 ? fixed : 0);
    column.text.clear();
    column.text_ends.clear();
    column.weights.clear();
    column.offsets.clear();
    column.sequence_offsets.clear();
    if (request.has_bags()) column.offsets.push_back(0);
    if (!request.sequence_delim.empty()) column.sequence_offsets.push_back(0);
  }
}

void LineParser::end_block(int64_t rows, Block& block) const {
  for (size_t i = 0; i < requests_.size(); ++i) {
    Column& column = block.columns[i];
    if (requests_[i].has_bags()) {
      drop_plain_offsets(column);
    } else if (column.type == ColumnType::kFloat) {
      column.floats.resize(static_cast<size_t>(rows));
    } else if (column.type == ColumnType::kInt64) {
      column.ints.resize(static_cast<size_t>(rows));
      column.missing.resize(static_cast<size_t>(rows));
      drop_missing_if_none(column);
    }
  }
  block.rows = rows;
}

void LineParser::truncate(int64_t row, Block& block) const {
  for (size_t i = 0; i < requests_.size(); ++i) {
    Column& column = block.columns[i];
    const bool bag = requests_[i].has_bags();
    int64_t bags = row;
    if (!requests_[i].sequence_delim.empty()) {
      column.sequence_offsets.resize(static_cast<size_t>(row + 1));
      bags = column.sequence_offsets.back();
    }
    if (bag) column.offsets.resize(static_cast<size_t>(bags + 1));
    const size_t values =
        bag ? static_cast<size_t>(column.offsets.back()) : static_cast<size_t>(row);
    if (requests_[i].weighted) column.weights.resize(values);
    if (column.type == ColumnType::kText ? column.text_ends.size() > values : bag)
      column.resize_values(values);
  }
}

namespace {

class CsvLineParser final : public LineParser {
 public:
  CsvLineParser(const std::vector<std::string>& names, char delimiter,
                std::vector<ColumnRequest> requests, const std::vector<std::string>& na_strings,
                const std::string& source)
      : LineParser(std::move(requests), na_strings),
        names_(names),
        targets_(names.size()),
        delimiter_(delimiter) {
    std::vector<ColumnSpec> columns;
    for (const std::string& name : names) columns.push_back({name, ColumnType::kText});
    for (size_t i = 0; i < this->requests().size(); ++i) {
      const int field = find_column(columns, this->requests()[i].name, source);
      targets_[static_cast<size_t>(field)].push_back(static_cast<int>(i));
    }
  }

 protected:
  std::string parse(std::string_view line, int64_t row, Block& block) const override {
    std::string unescaped;
    size_t field = 0;
    for (bool more = true; more; ++field) {
      std::string_view text;
      const CsvField found = take_csv_field(line, delimiter_, unescaped, text);
      if (found == CsvField::kUnclosed || found == CsvField::kTextAfterQuote)
        return in_column(field, quote_problem(found));
      more = found == CsvField::kMoreFollow;
      if (field >= targets_.size()) continue;
      for (const int target : targets_[field]) {
        const std::string problem = field_parser(target, block).add(text, row);
        if (!problem.empty()) return in_column(field, problem);
      }
    }
    if (field == targets_.size()) return {};
    return cat("found ", field, field == 1 ? " column" : " columns", ", expected ", targets_.size(),
               " separated by ", in_quotes(std::string_view(&delimiter_, 1)));
  }

 private:
  std::string in_column(size_t field, const std::string& problem) const {
    return cat("column ", field < names_.size() ? printable(names_[field]) : "?", ": ", problem);
  }

  std::vector<std::string> names_;
  std::vector<std::vector<int>> targets_;  // field -> columns of the block
  char delimiter_;
};

}  // namespace

std::unique_ptr<LineParser> make_csv_line_parser(const std::vector<std::string>& names,
                                                 char delimiter,
                                                 std::vector<ColumnRequest> requests,
                                                 const std::vector<std::string>& na_strings,
                                                 const std::string& source) {
  return std::make_unique<CsvLineParser>(names, delimiter, std::move(requests), na_strings, source);
}

}  // namespace emblem
