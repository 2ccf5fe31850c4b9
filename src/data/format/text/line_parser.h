// data/format/text/line_parser.h - a line of text as a row of a block: what CSV files and the text
// messages of streams have in common.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/format/decoder.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/text_filters.h"

namespace emblem {

// Made once; const methods may run concurrently, each on a block of its own.
class LineParser {
 public:
  virtual ~LineParser() = default;

  // Columns of the blocks: one per request, in the order of the requests.
  const std::vector<ColumnRequest>& requests() const { return requests_; }

  // Makes room in `block` for up to `rows` rows.
  void begin_block(int64_t rows, Block& block) const;

  // Reads `line`, which has no line end, into row `row`. Returns what is wrong with it, or "";
  // the block is then as if the line had not been there.
  std::string add(std::string_view line, int64_t row, Block& block) const {
    std::string problem = parse(line, row, block);
    if (!problem.empty()) truncate(row, block);
    return problem;
  }

  // Cuts the block to its `rows` rows.
  void end_block(int64_t rows, Block& block) const;

 protected:
  LineParser(std::vector<ColumnRequest> requests, const std::vector<std::string>& na_strings)
      : requests_(std::move(requests)), missing_(na_strings) {}

  virtual std::string parse(std::string_view line, int64_t row, Block& block) const = 0;

 public:
  CsvFieldParser field_parser(int column, Block& block) const {
    return {requests_[static_cast<size_t>(column)], missing_,
            block.columns[static_cast<size_t>(column)]};
  }

 private:
  // Takes back what a bad line has appended.
  void truncate(int64_t row, Block& block) const;

  std::vector<ColumnRequest> requests_;
  MissingTexts missing_;
};

// Separated values in the order of `names`, which a message about a request for another column says
// `source` has.
std::unique_ptr<LineParser> make_csv_line_parser(const std::vector<std::string>& names,
                                                 char delimiter,
                                                 std::vector<ColumnRequest> requests,
                                                 const std::vector<std::string>& na_strings,
                                                 const std::string& source);

// A JSON object with the columns as keys. A value is read as the text of a CSV field is. A key that
// is not there, and null, are missing values; other keys are skipped. The values of a bag may be an
// array, or an object of values and their weights; the elements of a sequence an array of values or
// of bags.
std::unique_ptr<LineParser> make_json_line_parser(std::vector<ColumnRequest> requests,
                                                  const std::vector<std::string>& na_strings);

// Sets values[i] to the text that a line has for the column of filters[i]. Returns what is wrong
// with it, or "".
std::string read_json_filtered(std::string_view line, const TextFilters& filters,
                               std::vector<std::string>& values);

}  // namespace emblem
