// Separated values: quotes, headers, bags of values within a field.
#include <algorithm>
#include <cstring>
#include <map>

#include "core/text.h"
#include "data/format/csv_field.h"
#include "data/format/csv_types.h"
#include "data/format/text_decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

class CsvDecoder final : public TextDecoder {
 public:
  CsvDecoder(const DataSource& source, const std::vector<ColumnRequest>* requests)
      : TextDecoder(source), missing_(source.na_strings) {
    EMBLEM_REQUIRE(source.delimiter.size() == 1, "data_config.delimiter is ",
                   in_quotes(source.delimiter), "; expected one character");
    delimiter_ = source.delimiter[0];
    read_names(source);
    if (requests != nullptr) {
      requests_ = *requests;
    } else {
      const int64_t sampled = 10000;
      std::vector<std::string> lines = first_lines(0, sampled + 1);
      if (source.with_header) lines.erase(lines.begin());
      requests_ = natural_csv_types(field_names_, source.fields, missing_, split_sample(lines));
    }
    targets_.resize(field_names_.size());
    const std::string where =
        names_[0] + (source.with_header ? "" : " (by data_config.input_fields)");
    for (size_t i = 0; i < requests_.size(); ++i) {
      targets_[field_of(requests_[i].name, where)].push_back(static_cast<int>(i));
      columns_.push_back({requests_[i].name, requests_[i].type});
    }
    for (const std::string& name : source.keep) kept_fields_.push_back(field_of(name, where));
  }

 protected:
  void begin_block(int64_t rows, Block& block) const override {
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

  const char* parse_line(const char* at, int64_t row, Block& block,
                         std::string& problem) const override {
    const char* next = nullptr;
    problem = parse_fields(line_at(at, next), row, block);
    if (!problem.empty()) truncate(row, block);
    return next;
  }

  void read_kept(std::string_view line, std::vector<std::string>& values) const override {
    const std::vector<std::string> fields = split_csv_line(line, delimiter_);
    if (fields.size() != field_names_.size()) return;
    for (size_t i = 0; i < values.size(); ++i) values[i] = fields[kept_fields_[i]];
  }

  void end_block(int64_t rows, Block& block) const override {
    for (size_t i = 0; i < requests_.size(); ++i) {
      Column& column = block.columns[i];
      if (requests_[i].has_bags()) {
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
      if (file == 0) {
        field_names_ = names;
        if (!line.empty()) header_ = line[0];
      }
      EMBLEM_REQUIRE(names == field_names_, names_[file], " has another header than ", names_[0],
                     "; expected the same columns in the same order");
    }
    check_names_differ();
    skip_headers();
    for (const config::Field& field : source.fields) {
      field_of(field.input_name(), names_[0]);
    }
  }

  size_t field_of(const std::string& name, const std::string& where) const {
    check_delimiter(name);
    return static_cast<size_t>(find_column(as_columns(field_names_), name, where));
  }

  // Throws when the header has the column `name` only if another delimiter cuts it.
  void check_delimiter(const std::string& name) const {
    const auto is_among = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (header_.empty() || is_among(field_names_)) return;
    for (const char other : {',', '\t', ';', '|'}) {
      EMBLEM_REQUIRE(!is_among(split_csv_line(header_, other)), names_[0], " has no column ",
                     in_quotes(name), ": its header looks as if the delimiter were ",
                     delimiter_text(other), ", but data_config.delimiter is ",
                     delimiter_text(delimiter_),
                     "; convert the file, or set data_config.delimiter");
    }
  }

  static std::string delimiter_text(char delimiter) {
    return delimiter == '\t' ? "\"\\t\"" : in_quotes(std::string_view(&delimiter, 1));
  }

  // A column without a name cannot be read and may be there more than once.
  void check_names_differ() const {
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < field_names_.size(); ++i) {
      const auto [at, is_new] = seen.emplace(field_names_[i], i + 1);
      EMBLEM_REQUIRE(is_new || field_names_[i].empty(), names_[0], ": columns ", at->second,
                     " and ", i + 1, " of the header are both called ", in_quotes(field_names_[i]),
                     "; rename one of them");
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
      if (found == CsvField::kUnclosed || found == CsvField::kTextAfterQuote)
        return in_column(field, quote_problem(found));
      more = found == CsvField::kMoreFollow;
      if (field >= targets_.size()) continue;
      for (const int target : targets_[field]) {
        const CsvFieldParser parser(requests_[target], missing_, block.columns[target]);
        const std::string problem = parser.add(text, row);
        if (!problem.empty()) return in_column(field, problem);
      }
    }
    if (field == targets_.size()) return {};
    return cat("found ", field, field == 1 ? " column" : " columns", ", expected ", targets_.size(),
               " separated by ", in_quotes(std::string_view(&delimiter_, 1)));
  }

  std::string in_column(size_t field, const std::string& problem) const {
    return cat("column ", field < field_names_.size() ? printable(field_names_[field]) : "?", ": ",
               problem);
  }

  // Takes back what a bad line has appended.
  void truncate(int64_t row, Block& block) const {
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
      if (bag && column.type == ColumnType::kFloat) column.floats.resize(values);
      if (bag && column.type == ColumnType::kInt64) column.ints.resize(values);
      if (column.type == ColumnType::kText && column.text_ends.size() > values) {
        column.text_ends.resize(values);
        column.text.resize(values == 0 ? 0 : column.text_ends.back());
      }
    }
  }

  char delimiter_ = ',';
  MissingTexts missing_;
  std::string header_;  // the line; "" without one
  std::vector<std::string> field_names_;
  std::vector<ColumnRequest> requests_;
  std::vector<std::vector<int>> targets_;  // field -> columns of the block
  std::vector<size_t> kept_fields_;        // by position in DataSource::keep
};

}  // namespace

std::unique_ptr<Decoder> make_csv_decoder(const DataSource& source,
                                          const std::vector<ColumnRequest>* requests) {
  return std::make_unique<CsvDecoder>(source, requests);
}

}  // namespace emblem
