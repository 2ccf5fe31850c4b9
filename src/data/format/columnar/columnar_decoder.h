// data/format/columnar/columnar_decoder.h - what formats of columns share (Parquet, ORC, Arrow
// IPC): a file is parts (row groups, stripes, record batches) of rows; every column of a part is
// read on its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/format/columnar/column_selection.h"
#include "data/format/columnar/columnar_field.h"
#include "data/format/decoder.h"

namespace emblem {

// Reads the rows of one part front to back. Used by one thread.
class PartReader {
 public:
  virtual ~PartReader() = default;

  // Overwrites `out` with the next `rows` rows of column `at` of those that it was opened for.
  // Throws Error that names file, part and column where the file is damaged.
  virtual void read(size_t at, int64_t rows, Column& out, std::vector<ValueProblem>& problems) = 0;
  // The next `rows` rows of all columns.
  virtual void skip(int64_t rows) = 0;  // negative, too, unless ColumnarFile::reads_forward
};

// Const methods may run concurrently.
class ColumnarFile {
 public:
  virtual ~ColumnarFile() = default;

  virtual const std::string& path() const = 0;
  virtual int64_t bytes() const = 0;
  virtual const std::vector<ColumnarField>& fields() const = 0;
  virtual const std::vector<int64_t>& part_rows() const = 0;
  virtual const char* part_name() const = 0;  // "row group"
  // As stored.
  virtual int64_t part_bytes(int part, const std::vector<ColumnRead>& columns) const = 0;
  // What is known of a column's values; nothing where the file has no statistics.
  virtual std::optional<ValueBounds> bounds(int part, int field) const {
    (void)part, (void)field;
    return std::nullopt;
  }
  // Whether parts are read from their start only.
  virtual bool reads_forward() const { return true; }
  virtual bool read_directly() = 0;
  // As InputFile::prefetch.
  virtual void prefetch(int64_t offset, int64_t count) const = 0;
  virtual std::unique_ptr<PartReader> open(int part,
                                           const std::vector<ColumnRead>& columns) const = 0;
};

// The number by which samples know a file, and the position of its first row.
struct FilePlace {
  int number = 0;
  int64_t first_row = 0;
};

// Columns may be in another order in every file; those that are read have the same types in all
// that have rows.
// Rows that do not fulfil all filters are not read. Made once; const methods may run concurrently.
class ColumnarDecoder final : public Decoder {
 public:
  ColumnarDecoder(const DataSource& source, const std::vector<ColumnRequest>* requests,
                  std::vector<std::unique_ptr<ColumnarFile>> files);
  // Some of the files of a data set, one number for all, whose rows follow each other.
  ColumnarDecoder(std::shared_ptr<const ColumnSelection> selection,
                  std::vector<std::unique_ptr<ColumnarFile>> files, FilePlace place);

  const std::shared_ptr<const ColumnSelection>& selection() const { return selection_; }
  const std::vector<ColumnSpec>& columns() const override { return selection_->columns; }
  const std::vector<std::string>& files() const override { return names_; }
  ExtentUnit unit() const override { return ExtentUnit::kRecords; }
  Extent extent(int file) const override {
    return {files_[file].first_rows.front(), files_[file].first_rows.back()};
  }
  std::vector<Extent> parts(int file) const override;
  bool reads_forward() const override { return files_[0].file->reads_forward(); }
  int64_t file_bytes(int file) const override { return files_[file].file->bytes(); }
  std::string read_directly() override;
  void prefetch(int file, Extent range) const override;
  void decode(int file, Extent range, const RowSample& sample, const Random* shuffle,
              DecodedPiece& out) const override;
  std::string locate(int file, int64_t position) const override;

 private:
  struct Cursor;
  struct File {
    std::unique_ptr<ColumnarFile> file;
    std::vector<int64_t> first_rows;  // first row of each part; then the end
    std::vector<ColumnRead> reads;    // reads of ColumnSelection::fields
    int64_t rows = 0;
    int number = 0;
  };

  const std::vector<RowFilter>& filters() const { return selection_->filters; }
  void add_file(std::unique_ptr<ColumnarFile> file, FilePlace place);
  bool may_have_rows(const File& file, int part) const;
  Cursor& cursor_at(int file, Extent range, DecodedPiece& out) const;
  std::vector<int32_t> wanted_rows(int number, Extent range, const RowSample& sample,
                                   const Random* shuffle, const Cursor& cursor) const;
  void keep_rows(const std::vector<int32_t>& rows, const Cursor& cursor, TextColumn& kept) const;
  int64_t bytes_of(const File& file, Extent range, const Cursor& cursor) const;

  std::shared_ptr<const ColumnSelection> selection_;
  std::vector<File> files_;
  std::vector<std::string> names_;
};

// How a data set is stored.
struct ColumnarLayout {
  std::string part_name;  // "row group"
  int64_t parts = 0, most_rows = 0, rows = 0;
  // Types of the columns that are read with their natural types.
  std::vector<std::string> types;
  std::vector<std::string> unreadable;  // the other columns, with their types
};

// Nothing where `source` has another format.
std::optional<ColumnarLayout> columnar_layout(const DataSource& source);

// Whether this build reads them.
bool has_columnar_formats();

// Files whose columns have types of their own.
constexpr bool is_columnar(config::DatasetType type) {
  return type == config::ParquetDataset || type == config::OrcDataset ||
         type == config::ArrowDataset;
}

// One function a format; columnar_decoder.cc lists them.
std::unique_ptr<ColumnarFile> open_parquet_file(const std::string& path, const Storage& storage);
std::unique_ptr<ColumnarFile> open_orc_file(const std::string& path, const Storage& storage);
std::unique_ptr<ColumnarFile> open_arrow_file(const std::string& path, const Storage& storage);

}  // namespace emblem
