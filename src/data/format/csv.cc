// Separated values: quotes, headers, bags of values within a field.
#include <algorithm>
#include <cstring>

#include "data/format/csv_field.h"
#include "data/format/csv_types.h"
#include "data/format/text_decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

class CsvDecoder final : public TextDecoder {
 public:
  CsvDecoder(const DataSource& source, const std::vector<ColumnRequest>* requests)
      : TextDecoder(source.input) {
    EMBLEM_REQUIRE(source.delimiter.size() == 1, "data_config.delimiter is ",
                   quoted(source.delimiter), "; expected one character");
    delimiter_ = source.delimiter[0];
    read_names(source);
    if (requests != nullptr) {
      requests_ = *requests;
    } else {
      const int64_t sampled = 10000;
      std::vector<std::string> lines = first_lines(0, sampled + 1);
      if (source.with_header) lines.erase(lines.begin());
      requests_ = natural_csv_types(field_names_, source.fields, split_sample(lines));
    }
    targets_.resize(field_names_.size());
    const std::string where =
        names_[0] + (source.with_header ? "" : " (by data_config.input_fields)");
    for (size_t i = 0; i < requests_.size(); ++i) {
      targets_[find_column(as_columns(field_names_), requests_[i].name, where)].push_back(
          static_cast<int>(i));
      columns_.push_back({requests_[i].name, requests_[i].type});
    }
  }

 protected:
  void begin_block(int64_t rows, Block& block) const override {
    block.columns.resize(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      Column& column = block.columns[i];
      const ColumnRequest& request = requests_[i];
      const size_t fixed = request.separators.empty() ? static_cast<size_t>(rows) : 0;
      column.type = request.type;
      column.floats.resize(request.type == ColumnType::kFloat ? fixed : 0);
      column.ints.resize(request.type == ColumnType::kInt64 ? fixed : 0);
      column.missing.resize(request.type == ColumnType::kInt64 ? fixed : 0);
      column.text.clear();
      column.text_ends.clear();
      column.weights.clear();
      column.offsets.clear();
      if (!request.separators.empty()) column.offsets.push_back(0);
    }
  }

  const char* parse_line(const char* at, int64_t row, Block& block,
                         std::string& problem) const override {
    const char* next = nullptr;
    problem = parse_fields(line_at(at, next), row, block);
    if (!problem.empty()) truncate(row, block);
    return next;
  }

  void end_block(int64_t rows, Block& block) const override {
    for (size_t i = 0; i < requests_.size(); ++i) {
      Column& column = block.columns[i];
      if (!requests_[i].separators.empty()) {
        drop_plain_offsets(column);
      } else if (column.type == ColumnType::kFloat) {
        column.floats.resize(static_cast<size_t>(rows));
      } else if (column.type == ColumnType::kInt64) {
        column.ints.resize(static_cast<size_t>(rows));
        column.missing.resize(static_cast<size_t>(rows));
        if (std::memchr(column.missing.data(), 1, column.missing.size()) == nullptr) {
          column.missing.clear();
        }
      }
    }
  }

 private:
  void read_names(const DataSource& source) {
    if (!source.with_header) {
      EMBLEM_REQUIRE(
          !source.fields.empty(), names_[0],
          ": the names of its columns are not known; set data_config.with_header: true if "
          "its first line has them, else list data_config.input_fields");
      for (const config::Field& field : source.fields) field_names_.push_back(field.input_name());
      return;
    }
    for (size_t file = 0; file < names_.size(); ++file) {
      const std::vector<std::string> line = first_lines(static_cast<int>(file), 1);
      std::vector<std::string> names;
      if (!line.empty()) names = split_csv_line(line[0], delimiter_);
      if (file == 0) field_names_ = names;
      EMBLEM_REQUIRE(names == field_names_, names_[file], " has another header than ", names_[0],
                     "; expected the same columns in the same order");
    }
    skip_headers();
    for (const config::Field& field : source.fields) {
      find_column(as_columns(field_names_), field.input_name(), names_[0]);
    }
  }

  std::vector<std::vector<std::string>> split_sample(const std::vector<std::string>& lines) const {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& line : lines) rows.push_back(split_csv_line(line, delimiter_));
    return rows;
  }

  static std::vector<ColumnSpec> as_columns(const std::vector<std::string>& names) {
    std::vector<ColumnSpec> columns;
    for (const std::string& name : names) columns.push_back({name, ColumnType::kText});
    return columns;
  }

  std::string parse_fields(std::string_view line, int64_t row, Block& block) const {
    std::string unescaped;
    size_t field = 0;
    for (bool more = true; more; ++field) {
      std::string_view text;
      const CsvField found = take_csv_field(line, delimiter_, unescaped, text);
      if (found == CsvField::kUnclosed) {
        return cat("column ", field < field_names_.size() ? field_names_[field] : "?",
                   ": a quoted field is not closed before the next delimiter");
      }
      more = found == CsvField::kMoreFollow;
      if (field >= targets_.size()) continue;
      for (const int target : targets_[field]) {
        std::string problem =
            CsvFieldParser(requests_[target], block.columns[target]).add(text, row);
        if (!problem.empty()) return cat("column ", field_names_[field], ": ", problem);
      }
    }
    if (field == targets_.size()) return {};
    return cat("found ", field, field == 1 ? " column" : " columns", ", expected ", targets_.size(),
               " separated by ", quoted(std::string_view(&delimiter_, 1)));
  }

  // Takes back what a bad line has appended.
  void truncate(int64_t row, Block& block) const {
    for (size_t i = 0; i < requests_.size(); ++i) {
      Column& column = block.columns[i];
      const bool bag = !requests_[i].separators.empty();
      if (bag) column.offsets.resize(static_cast<size_t>(row + 1));
      const size_t values =
          bag ? static_cast<size_t>(column.offsets.back()) : static_cast<size_t>(row);
      if (requests_[i].weighted) column.weights.resize(values);
      if (bag && column.type == ColumnType::kFloat) column.floats.resize(values);
      if (bag && column.type == ColumnType::kInt64) column.ints.resize(values);
      if (column.type == ColumnType::kText && column.text_ends.size() > values) {
        column.text_ends.resize(values);
        column.text.resize(values == 0 ? 0 : column.text_ends.back());
      }
    }
  }

  char delimiter_ = ',';
  std::vector<std::string> field_names_;
  std::vector<ColumnRequest> requests_;
  std::vector<std::vector<int>> targets_;  // field -> columns of the block
};

}  // namespace

std::unique_ptr<Decoder> make_csv_decoder(const DataSource& source,
                                          const std::vector<ColumnRequest>* requests) {
  return std::make_unique<CsvDecoder>(source, requests);
}

}  // namespace emblem
