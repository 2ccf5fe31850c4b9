// data/format/text_decoder.h - what line-based formats share: cutting files at line ends, sampling,
// line numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/format/decoder.h"
#include "data/format/input_file.h"

namespace emblem {

// A line belongs to the piece that contains its first byte. Blank lines are not rows; "\r\n" ends a
// line as "\n" does. Fields never hold line ends. Files may be compressed
// (data/format/text_file.h); offsets and sizes are those of the text.
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

  // Opens the files of `source` that have rows.
  TextDecoder(const DataSource& source, Header header);

  // Makes room in `block` for up to `rows` rows.
  virtual void begin_block(int64_t rows, Block& block) const = 0;

  // Reads the line at `at` into row `row` of `block` and returns the start of the next line. Sets
  // `problem` when it is not a valid row, which leaves the block as if the line had not been there.
  virtual const char* parse_line(const char* at, int64_t row, Block& block,
                                 std::string& problem) const = 0;

  // Sets values[i] to the text that the line has in the i-th column of DataSource::keep. They are
  // all empty before, and stay so where the line does not divide into columns.
  virtual void read_kept(std::string_view line, std::vector<std::string>& values) const = 0;

  // Cuts the block to its `rows` rows.
  virtual void end_block(int64_t rows, Block& block) const = 0;

  // The first `count` lines of a file, without line ends and blank lines.
  std::vector<std::string> first_lines(int file, int64_t count) const;

  std::vector<std::string> names_;
  std::vector<InputFile> files_;
  std::vector<ColumnSpec> columns_;

 private:
  // Where the rows of a file begin whose text begins at `text_begin`.
  static int64_t data_begin(const InputFile& file, int64_t text_begin, Header header);
  void keep_line(std::string_view line, TextColumn& kept) const;

  std::vector<int64_t> text_begin_;  // after a byte order mark
  std::vector<int64_t> data_begin_;  // after the header, where there is one
  size_t kept_columns_;
};

// The line at `at` without its end, and in `next` the start of the following line.
std::string_view line_at(const char* at, const char*& next);

}  // namespace emblem
