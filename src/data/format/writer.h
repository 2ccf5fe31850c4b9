// data/format/writer.h - writes data sets: Criteo TSV, CSV, HugeCTR Raw, SOK split binary, Parquet,
// ORC and Arrow IPC (docs/formats.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/format/block.h"
#include "data/format/output_folder.h"

namespace emblem {

class RowEncoder;
class RowSink;

// Raw and split have no mark for a missing value.
enum class MissingValues { kReject, kZero };

enum class SplitLayout {
  kRows,     // label.bin, dense.bin, category.bin
  kColumns,  // label.bin of bytes, dense.bin of fp16 logarithms, category_0.bin ... as narrow as
             // they can be
};

enum class SplitDense { kInt32, kFloat32 };

// Parquet, ORC and Arrow IPC. Parquet has page checksums and pages of version 2.
struct ColumnarOptions {
  std::string compression;         // "": snappy (Parquet), zstd (ORC), none (Arrow)
  int64_t row_group_rows = 65536;  // rows of a row group, a stripe, a record batch
  bool dictionaries = true;        // Parquet: values that repeat are stored once in a row group
};

struct WriterOptions {
  // A file that would pass this size is followed by another (part-00001.tsv, ...); 0: one file.
  int64_t bundle_bytes = 0;
  Overwrite overwrite = Overwrite::kRefuse;
  MissingValues missing = MissingValues::kReject;
  char delimiter = ',';                // csv
  char separator = '\x1d';             // csv: between the values of a bag
  std::string sequence_delim = ";";    // csv: between the elements of a sequence
  std::vector<std::string> sequences;  // csv: columns of lists whose values are such elements
  SplitLayout split_layout = SplitLayout::kRows;  // split
  SplitDense split_dense = SplitDense::kInt32;    // split by rows
  ColumnarOptions columnar;                       // parquet, orc, arrow
  // split: vocab_sizes in metadata.json. Empty: the largest key of each column plus 1.
  std::vector<int64_t> cardinalities;
  // tsv, raw and split: which columns are what. Empty: columns named label, I1.., C1.. are what
  // their names say; failing that, the column "label" or else the first is the label, kFloat ones
  // are dense, kInt64 sparse.
  std::string label_field;
  std::vector<std::string> dense_fields, sparse_fields;
};

// Rows as they will stand in the files.
struct EncodedRows {
  int64_t rows = 0;
  std::vector<std::string> streams;   // one a file that is written side by side
  std::vector<int64_t> largest_keys;  // split: of each sparse column; -1 without rows
  std::shared_ptr<const void> batch;  // formats with a RowSink of their own: what that writes
};

// Fills one folder, which appears when finish() returns; destroyed earlier, it leaves no
// files. Used by one thread, but encode() may run on many at the same time.
class RowWriter {
 public:
  RowWriter(const std::string& folder, std::unique_ptr<RowEncoder> encoder,
            const WriterOptions& options);
  ~RowWriter();

  void write(const Block& block);

  // The two halves of write(): all the work, and what must happen in order. `first_row` (from 0) is
  // for messages. Throws Error naming row, column and value when something cannot be represented in
  // the format.
  void encode(const Block& block, int64_t first_row, EncodedRows& out) const;
  void append(const EncodedRows& rows);

  // Completes the files and puts the folder in its place.
  void finish();

  int64_t rows_written() const { return rows_; }
  int64_t bytes_written() const { return bytes_; }  // size of files that are complete

 private:
  void open_files();
  void close_files();

  OutputFolder folder_;
  std::unique_ptr<RowEncoder> encoder_;
  int64_t bundle_bytes_;
  std::vector<std::unique_ptr<RowSink>> files_;
  std::vector<int64_t> largest_keys_;
  int parts_ = 0;
  int64_t rows_ = 0, bytes_ = 0;
  EncodedRows scratch_;
};

// "tsv", "csv", "raw", "split", "parquet", "orc", "arrow".
const std::vector<std::string>& writable_formats();

// Throws Error when the format is unknown (listing the choices), when the schema does not fit it,
// or when `folder` cannot be written.
std::unique_ptr<RowWriter> make_writer(const std::string& format, const std::string& folder,
                                       const std::vector<ColumnSpec>& schema,
                                       const WriterOptions& options = {});

}  // namespace emblem
