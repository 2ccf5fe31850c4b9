#include "data/format/binary/message_decoder.h"

#include <algorithm>
#include <functional>

#include "data/format/text/csv_rows.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/line_parser.h"

namespace emblem {
namespace {

// The length of the row at the front of a message, without its line end. `quoted_by` are the
// delimiters of fields that may be in quotes; "": a row is a line.
size_t row_length(std::string_view message, std::string_view quoted_by) {
  const size_t line = std::min(message.find('\n'), message.size());
  if (quoted_by.empty() || message.substr(0, line).find('"') == message.npos) return line;
  const std::string text = std::string(message) + '\n';
  return static_cast<size_t>(find_row_end(text.data(), text.data() + text.size(), quoted_by) -
                             text.data());
}

// The rows of a message without line ends and without blank lines, as act(number, row).
template <class Act>
void for_each_row(std::string_view message, std::string_view quoted_by, Act&& act) {
  int64_t number = 0;
  while (!message.empty()) {
    const size_t end = row_length(message, quoted_by);
    std::string_view line = message.substr(0, end);
    message.remove_prefix(std::min(end + 1, message.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) act(number++, line);
  }
}

// Sets the texts of the columns that filters compare, as read_json_filtered does.
using ReadFiltered =
    std::function<std::string(std::string_view line, std::vector<std::string>& values)>;

class TextMessages final : public MessageDecoder {
 public:
  // `quoted_by` as for row_length.
  TextMessages(std::unique_ptr<LineParser> parser, std::string quoted_by, TextFilters filters,
               ReadFiltered read_filtered)
      : parser_(std::move(parser)),
        quoted_by_(std::move(quoted_by)),
        filters_(std::move(filters)),
        read_filtered_(std::move(read_filtered)) {
    for (const ColumnRequest& request : parser_->requests())
      columns_.push_back({request.name, request.type});
  }

  const std::vector<ColumnSpec>* columns() const override { return &columns_; }
  size_t most_messages() const override { return 4096; }

  const std::vector<ColumnSpec>* decode(const MessageChunk& chunk, const RowSample& sample,
                                        DecodedPiece& out) const override {
    const int64_t most_rows = std::count(chunk.bytes.begin(), chunk.bytes.end(), '\n') +
                              static_cast<int64_t>(chunk.messages());
    out.file = chunk.partition;
    out.bytes = static_cast<int64_t>(chunk.bytes.size());
    out.bad = {};
    out.bad_positions.clear();
    out.kept.clear();
    out.positions.resize(static_cast<size_t>(most_rows));
    parser_->begin_block(most_rows, out.block);
    int64_t rows = 0;
    for (size_t i = 0; i < chunk.messages(); ++i) {
      for_each_row(chunk.message(i), quoted_by_, [&](int64_t number, std::string_view line) {
        if (i == 0 && number < chunk.first_row) return;
        const int64_t position = row_position(chunk.offsets[i], number);
        if (!sample.keeps_all() && !sample.keeps(chunk.partition, position)) return;
        std::string problem;
        if (!filters_.empty() && is_filtered_out(line, problem)) return;
        if (number >= kMostRowsOfMessage) problem = "the message has too many rows";
        if (problem.empty()) problem = parser_->add(line, rows, out.block);
        if (problem.empty()) [[likely]] {
          out.positions[static_cast<size_t>(rows++)] = position;
        } else {
          out.bad.add(position, std::move(problem));
          out.bad_positions.push_back(position);
        }
      });
    }
    out.positions.resize(static_cast<size_t>(rows));
    parser_->end_block(rows, out.block);
    return &columns_;
  }

 private:
  // False for bad rows, and for those that have a `problem`.
  bool is_filtered_out(std::string_view line, std::string& problem) const {
    std::vector<std::string> values(filters_.size());
    problem = read_filtered_(line, values);
    return problem.empty() && !filters_.keep(values, problem) && problem.empty();
  }

  std::unique_ptr<LineParser> parser_;
  std::string quoted_by_;
  TextFilters filters_;
  ReadFiltered read_filtered_;
  std::vector<ColumnSpec> columns_;
};

std::unique_ptr<MessageDecoder> make_csv_messages(const config::DataConfig& data,
                                                  const std::vector<ColumnRequest>& requests,
                                                  const std::vector<std::string>& na_strings,
                                                  TextFilters filters) {
  EMBLEM_REQUIRE(data.delimiter().size() == 1, "data_config.delimiter is ",
                 in_quotes(data.delimiter()), "; expected one character");
  EMBLEM_REQUIRE(data.input_fields_size() > 0,
                 "the names of the columns of stream_format CSV_ROWS are not known; list "
                 "data_config.input_fields");
  constexpr const char* kSource = "data_config.input_fields";
  std::vector<std::string> names;
  std::vector<ColumnSpec> columns;
  for (const config::Field& field : data.input_fields()) {
    names.push_back(field.input_name());
    columns.push_back({field.input_name(), ColumnType::kText});
  }
  std::vector<size_t> filtered;
  for (size_t i = 0; i < filters.size(); ++i) {
    const int at = find_column(columns, filters[i], kSource);
    filtered.push_back(static_cast<size_t>(at));
    const config::Field& field = data.input_fields(at);
    if (field.has_input_type()) filters.set_type(i, type_of(field.input_type()), kSource);
  }
  const char delimiter = data.delimiter()[0];
  auto read_filtered = [=, count = names.size()](std::string_view line,
                                                 std::vector<std::string>& values) {
    std::string problem;
    if (!pick_csv_fields(line, delimiter, count, filtered, values))
      problem = cat("does not have the ", count, " columns of data_config.input_fields");
    return problem;
  };
  return std::make_unique<TextMessages>(
      make_csv_line_parser(names, delimiter, requests, na_strings, kSource), data.delimiter(),
      std::move(filters), std::move(read_filtered));
}

}  // namespace

std::unique_ptr<MessageDecoder> make_message_decoder(const config::DataConfig& data,
                                                     const std::vector<ColumnRequest>& requests) {
  const std::vector<std::string> na_strings(data.na_strings().begin(), data.na_strings().end());
  const std::vector<std::string> conditions(data.filters().begin(), data.filters().end());
  if (data.stream_format() == config::ARROW_BATCH)
    return make_arrow_messages(requests, na_strings, conditions);
  TextFilters filters(conditions, na_strings);
  if (data.stream_format() == config::CSV_ROWS)
    return make_csv_messages(data, requests, na_strings, std::move(filters));
  auto read_filtered = [filters](std::string_view line, std::vector<std::string>& values) {
    return read_json_filtered(line, filters, values);
  };
  return std::make_unique<TextMessages>(make_json_line_parser(requests, na_strings), "", filters,
                                        std::move(read_filtered));
}

}  // namespace emblem
