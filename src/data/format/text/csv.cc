// Separated values: quotes, headers, bags of values within a field.
#include <algorithm>
#include <map>
#include <mutex>

#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/line_parser.h"
#include "data/format/text/text_decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

class CsvDecoder final : public TextDecoder {
 public:
  CsvDecoder(const DataSource& source, const std::vector<ColumnRequest>* requests)
      : TextDecoder(source, source.with_header ? Header::kFirstLine : Header::kNone,
                    source.delimiter.empty() ? ',' : source.delimiter[0]) {
    EMBLEM_REQUIRE(source.delimiter.size() == 1, "data_config.delimiter is ",
                   in_quotes(source.delimiter), "; expected one character");
    delimiter_ = source.delimiter[0];
    read_names(source);
    if (field_names_.size() == 1) keep_blank_lines();
    const std::string where =
        names_[0] + (source.with_header ? "" : " (by data_config.input_fields)");
    for (const std::string& name : source.keep) kept_fields_.push_back(field_of(name, where));
    find_filtered(source, where);
    if (requests != nullptr) {
      read_as(*requests, source, where);
      return;
    }
    std::vector<ColumnSpec> columns;
    read_as(natural_types(source, where, columns), source, where);
    columns_ = std::move(columns);
  }

 protected:
  void begin_block(int64_t rows, Block& block) const override { parser_->begin_block(rows, block); }

  const char* parse_line(const char* at, const char* end, int64_t row, Block& block,
                         std::string& problem) const override {
    const char* next = nullptr;
    problem = parser_->add(row_at(at, end, next), row, block);
    return next;
  }

  void read_kept(std::string_view line, std::vector<std::string>& values) const override {
    pick_csv_fields(line, delimiter_, field_names_.size(), kept_fields_, values);
  }

  bool read_filtered(std::string_view line, std::vector<std::string>& values) const override {
    return pick_csv_fields(line, delimiter_, field_names_.size(), filtered_fields_, values);
  }

  void end_block(int64_t rows, Block& block) const override { parser_->end_block(rows, block); }

 private:
  void find_filtered(const DataSource& source, const std::string& where) {
    const std::vector<ColumnSpec> columns = as_columns(field_names_);
    for (size_t i = 0; i < filters_.size(); ++i) {
      const std::string& name = filters_[i].column();
      check_delimiter(name);
      filtered_fields_.push_back(static_cast<size_t>(find_column(columns, filters_[i], where)));
      for (const config::Field& field : source.fields)
        if (field.input_name() == name && field.has_input_type())
          filters_.set_type(i, type_of(field.input_type()), where);
    }
  }

  void read_as(std::vector<ColumnRequest> requests, const DataSource& source,
               const std::string& where) {
    columns_.clear();
    for (const ColumnRequest& request : requests) {
      field_of(request.name, where);
      columns_.push_back({request.name, request.type});
    }
    parser_ = make_csv_line_parser(field_names_, delimiter_, std::move(requests), source.na_strings,
                                   where);
  }

  // Declared types, else those that fit all rows: a column may turn to text at its end.
  std::vector<ColumnRequest> natural_types(const DataSource& source, const std::string& where,
                                           std::vector<ColumnSpec>& columns) {
    std::vector<ColumnRequest> requests;
    for (const std::string& name : field_names_)
      requests.push_back({.name = name, .type = ColumnType::kText});
    read_as(requests, source, where);
    const std::vector<CsvColumnKind> kinds = column_kinds(MissingTexts(source.na_strings));
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::string& name = field_names_[i];
      const auto field =
          std::find_if(source.fields.begin(), source.fields.end(), [&](const config::Field& one) {
            return one.input_name() == name && one.has_input_type();
          });
      if (field == source.fields.end()) {
        columns.push_back(natural_csv_type(name, kinds[i], source.natural, requests[i]));
        continue;
      }
      requests[i].type = type_of(field->input_type());
      requests[i].na_is_missing = requests[i].type == ColumnType::kFloat;
      columns.push_back({name, requests[i].type});
    }
    return requests;
  }

  // Reads all rows as text.
  std::vector<CsvColumnKind> column_kinds(const MissingTexts& missing) const {
    struct Piece {
      int file;
      Extent range;
    };
    constexpr int64_t kPieceBytes = int64_t{1} << 20;
    std::vector<Piece> pieces;
    for (int file = 0; file < static_cast<int>(files_.size()); ++file)
      for (int64_t at = extent(file).begin; at < extent(file).end; at += kPieceBytes)
        pieces.push_back({file, {at, std::min(extent(file).end, at + kPieceBytes)}});
    std::vector<CsvColumnKind> kinds(columns_.size());
    std::mutex mutex;
    const auto count = static_cast<int64_t>(pieces.size());
    ThreadPool threads(static_cast<int>(std::clamp<int64_t>(count, 1, available_cpus())));
    parallel_for(Context{.threads = &threads}, count, 1, [&](int64_t begin, int64_t end) {
      std::vector<CsvColumnKind> own(columns_.size());
      DecodedPiece piece;
      for (int64_t i = begin; i < end; ++i) {
        const Piece& from = pieces[static_cast<size_t>(i)];
        decode(from.file, from.range, RowSample{}, nullptr, piece);
        for (size_t at = 0; at < own.size(); ++at)
          add_values(piece.block.columns[at], missing, own[at]);
      }
      const std::lock_guard lock(mutex);
      for (size_t at = 0; at < own.size(); ++at) kinds[at].add(own[at]);
    });
    return kinds;
  }

  static void add_values(const Column& column, const MissingTexts& missing, CsvColumnKind& kind) {
    size_t begin = 0;
    for (const uint32_t end : column.text_ends) {
      kind.add(std::string_view(column.text).substr(begin, end - begin), missing);
      begin = end;
    }
  }

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

  static std::vector<ColumnSpec> as_columns(const std::vector<std::string>& names) {
    std::vector<ColumnSpec> columns;
    for (const std::string& name : names) columns.push_back({name, ColumnType::kText});
    return columns;
  }

  char delimiter_ = ',';
  std::string header_;  // the line; "" without one
  std::vector<std::string> field_names_;
  std::vector<size_t> kept_fields_;      // by position in DataSource::keep
  std::vector<size_t> filtered_fields_;  // by condition
  std::unique_ptr<LineParser> parser_;
};

}  // namespace

std::unique_ptr<Decoder> make_csv_decoder(const DataSource& source,
                                          const std::vector<ColumnRequest>* requests) {
  return std::make_unique<CsvDecoder>(source, requests);
}

}  // namespace emblem
