// data/format/encoder.h - the formats of data/format/writer.h: what a block's rows look like in
// files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/format/block.h"
#include "data/format/writer.h"

namespace emblem {

// One file under way. Used by one thread.
class RowSink {
 public:
  virtual ~RowSink() = default;

  virtual void write(const EncodedRows& rows) = 0;
  virtual int64_t bytes_written() const = 0;
  virtual void finish() = 0;
};

// Made once; const methods may run concurrently.
class RowEncoder {
 public:
  virtual ~RowEncoder() = default;

  // The names of the files that one part is made of, the same number for every part.
  virtual std::vector<std::string> file_names(int part) const = 0;
  // What each file begins with.
  virtual std::string header() const { return {}; }
  // Sets `out`, reusing its memory. Blocks have the columns of the schema.
  virtual void encode(const Block& block, int64_t first_row, EncodedRows& out) const = 0;
  // Called once in `folder`, with all files closed.
  virtual void complete(const std::string& folder, const std::vector<int64_t>& largest_keys) const {
    (void)folder, (void)largest_keys;
  }
  virtual bool can_be_bundled() const { return true; }
  // The file `path`, the index-th of file_names(); by default one of the bytes of its stream.
  virtual std::unique_ptr<RowSink> open(const std::string& path, size_t index) const;

  size_t columns() const { return columns_; }

 protected:
  explicit RowEncoder(size_t columns) : columns_(columns) {}

 private:
  size_t columns_;
};

// Which columns of a schema are label, counts and categories in the formats that know no others.
struct ColumnRoles {
  int label = 0;
  std::vector<int> dense, sparse;
};

// Throws Error when `options` name unknown columns or a column cannot play its role.
ColumnRoles column_roles(const std::vector<ColumnSpec>& schema, const WriterOptions& options,
                         const std::string& format);

// "part-00003.csv".
std::string part_name(int part, const char* ending);

// A column of numbers as double; NaN where missing.
double number_at(const Column& column, int64_t row);

// One function a format; writer.cc lists them.
std::unique_ptr<RowEncoder> make_tsv_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options);
std::unique_ptr<RowEncoder> make_csv_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options);
std::unique_ptr<RowEncoder> make_parquet_encoder(const std::vector<ColumnSpec>& schema,
                                                 const WriterOptions& options);
std::unique_ptr<RowEncoder> make_orc_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options);
std::unique_ptr<RowEncoder> make_arrow_encoder(const std::vector<ColumnSpec>& schema,
                                               const WriterOptions& options);
std::unique_ptr<RowEncoder> make_raw_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options);
std::unique_ptr<RowEncoder> make_split_encoder(const std::vector<ColumnSpec>& schema,
                                               const WriterOptions& options);

}  // namespace emblem
