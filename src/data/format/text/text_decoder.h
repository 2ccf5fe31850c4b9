// data/format/text/text_decoder.h - what line-based formats share: cutting files at line ends,
// sampling, line numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/format/decoder.h"
#include "data/format/input_file.h"
#include "data/format/text/text_filters.h"

namespace emblem {

// A row is a line, or with `Quotes` what ends with a line end outside of quotes
// (data/format/text/csv_rows.h). It belongs to the piece that contains its first byte. Blank lines
// are not rows, unless a row has one column; "\r\n" ends a line as "\n" does. Files may be
// compressed (data/format/text/text_file.h); offsets and sizes are those of the text.
class TextDecoder : public Decoder {
 public:
  const std::vector<ColumnSpec>& columns() const final { return columns_; }
  const std::vector<std::string>& files() const final { return names_; }
  ExtentUnit unit() const final { return ExtentUnit::kBytes; }
  Extent extent(int file) const final { return {data_begin_[file], files_[file].bytes()}; }
  int64_t file_bytes(int file) const final { return files_[file].bytes(); }
  std::string read_directly() final;
  void prefetch(int file, Extent range) const final {
    files_[file].prefetch(range.begin, range.end - range.begin);
  }
  void decode(int file, Extent range, const RowSample& sample, const Random* shuffle,
              DecodedPiece& out) const final;
  std::string locate(int file, int64_t position) const final;

 protected:
  // kFirstLine: the first line of every file that is not blank is not a row.
  enum class Header : uint8_t { kNone, kFirstLine };

  // Opens the files of `source` that have rows. `delimiter` of fields that may be in quotes, which
  // may hold line ends; 0: there are none.
  TextDecoder(const DataSource& source, Header header, char delimiter = 0);

  // Makes room in `block` for up to `rows` rows.
  virtual void begin_block(int64_t rows, Block& block) const = 0;

  // Reads the row at `at` into row `row` of `block` and returns the start of the next one. The text
  // ends at `end`. Sets `problem` when it is not a valid row, which leaves the block as if it had
  // not been there.
  virtual const char* parse_line(const char* at, const char* end, int64_t row, Block& block,
                                 std::string& problem) const = 0;

  // The row at `at` without its line end, and in `next` the start of the following one.
  std::string_view row_at(const char* at, const char* end, const char*& next) const;

  // Sets values[i] to the text that the line has in the i-th column of DataSource::keep. They are
  // all empty before, and stay so where the line does not divide into columns.
  virtual void read_kept(std::string_view line, std::vector<std::string>& values) const = 0;

  // Sets values[i] to the text that the line has in the column of filters_[i]; false where the line
  // does not divide into columns.
  virtual bool read_filtered(std::string_view line, std::vector<std::string>& values) const = 0;

  // Cuts the block to its `rows` rows.
  virtual void end_block(int64_t rows, Block& block) const = 0;

  // The first `count` rows of a file, without line ends and blank lines.
  std::vector<std::string> first_lines(int file, int64_t count) const;

  // Blank lines are rows, too: of one column, whose value is missing.
  void keep_blank_lines() { keeps_blank_lines_ = true; }

  std::vector<std::string> names_;
  std::vector<InputFile> files_;
  std::vector<ColumnSpec> columns_;
  TextFilters filters_;

 private:
  // Where the rows of a file begin whose text begins at `text_begin`.
  int64_t data_begin(const InputFile& file, int64_t text_begin, Header header) const;
  // Reads the rows that start in `range` into `buffer`. Returns them, the last one ended by '\n'
  // even where the file's last one is not, and in `offset` the place of the first in the file.
  std::string_view read_rows(const InputFile& file, int64_t text_begin, Extent range,
                             HostVector<char>& buffer, int64_t& offset) const;
  const char* row_end(const char* at, const char* end) const;
  void keep_line(std::string_view line, TextColumn& kept) const;
  bool is_filtered_out(std::string_view line, std::string& problem) const;

  std::vector<int64_t> text_begin_;  // after a byte order mark
  std::vector<int64_t> data_begin_;  // after the header, where there is one
  std::string quoted_by_;            // the delimiter of fields in quotes; "": none are
  bool keeps_blank_lines_ = false;
  size_t kept_columns_;
};

}  // namespace emblem
