#include "data/format/message_decoder.h"

#include <algorithm>

#include "data/format/line_parser.h"

namespace emblem {
namespace {

// The lines of a message without their ends and without blank ones, as act(number, line).
template <class Act>
void for_each_line(std::string_view message, Act&& act) {
  int64_t number = 0;
  while (!message.empty()) {
    const size_t end = std::min(message.find('\n'), message.size());
    std::string_view line = message.substr(0, end);
    message.remove_prefix(std::min(end + 1, message.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) act(number++, line);
  }
}

class TextMessages final : public MessageDecoder {
 public:
  explicit TextMessages(std::unique_ptr<LineParser> parser) : parser_(std::move(parser)) {
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
      for_each_line(chunk.message(i), [&](int64_t number, std::string_view line) {
        if (i == 0 && number < chunk.first_row) return;
        const int64_t position = row_position(chunk.offsets[i], number);
        if (!sample.keeps_all() && !sample.keeps(chunk.partition, position)) return;
        std::string problem = number < kMostRowsOfMessage ? parser_->add(line, rows, out.block)
                                                          : "the message has too many rows";
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
  std::unique_ptr<LineParser> parser_;
  std::vector<ColumnSpec> columns_;
};

std::unique_ptr<LineParser> csv_parser(const config::DataConfig& data,
                                       const std::vector<ColumnRequest>& requests,
                                       const std::vector<std::string>& na_strings) {
  EMBLEM_REQUIRE(data.delimiter().size() == 1, "data_config.delimiter is ",
                 in_quotes(data.delimiter()), "; expected one character");
  EMBLEM_REQUIRE(data.input_fields_size() > 0,
                 "the names of the columns of stream_format CSV_ROWS are not known; list "
                 "data_config.input_fields");
  std::vector<std::string> names;
  for (const config::Field& field : data.input_fields()) names.push_back(field.input_name());
  return make_csv_line_parser(names, data.delimiter()[0], requests, na_strings,
                              "data_config.input_fields");
}

}  // namespace

std::unique_ptr<MessageDecoder> make_message_decoder(const config::DataConfig& data,
                                                     const std::vector<ColumnRequest>& requests) {
  const std::vector<std::string> na_strings(data.na_strings().begin(), data.na_strings().end());
  switch (data.stream_format()) {
    case config::JSON_ROWS:
      return std::make_unique<TextMessages>(make_json_line_parser(requests, na_strings));
    case config::CSV_ROWS:
      return std::make_unique<TextMessages>(csv_parser(data, requests, na_strings));
    case config::ARROW_BATCH:
      break;
  }
  return make_arrow_messages(requests, na_strings);
}

}  // namespace emblem
