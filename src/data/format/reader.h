// data/format/reader.h - reads a data set front to back as blocks of typed columns, for conversion
// and inspection. Training reads through data/loader/loader.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/proto/data.pb.h"
#include "data/format/block.h"
#include "data/source/storage.h"

namespace emblem {

// What is read and how. The fields mean what those of config::DataConfig mean.
struct DataSource {
  config::DatasetType type = config::CsvDataset;
  std::string input;            // files, folders or globs, comma-separated; SplitDataset: folders
  std::string delimiter = ",";  // CsvDataset: one character
  bool with_header = false;     // CsvDataset
  std::vector<config::Field> fields;  // CsvDataset: the columns, or the types of some of a header's
  std::vector<std::string> na_strings;  // CsvDataset
  int num_dense = 13;                   // CriteoTsvDataset, RawDataset, SplitDataset
  int num_sparse = 26;
  int64_t max_bad_rows = 0;          // rows that cannot be read are skipped up to this number
  std::vector<std::string> keep;     // columns whose text DecodedPiece::kept holds
  std::vector<std::string> filters;  // conditions of rows that are read
  NaturalTypes natural = NaturalTypes::kNumbers;
  int threads = 1;  // decompress this many files at a time when they are opened
  Storage storage;  // storage of addresses in `input`
};

// `storage` null: one of its own with the settings of `data`, where `input` has addresses.
DataSource source_of(const config::DataConfig& data, const std::string& input,
                     const Storage& storage = nullptr);

// Column types and values:
// - CriteoTsv, Raw, Split: criteo_schema(num_dense, num_sparse). label and I* are kFloat, a missing
// I is
//   NaN. C* are kInt64; in text they are hexadecimal and may be missing, in binary formats 32-bit
//   words are unsigned (a TSV's words survive conversion). Split variant c's I* are as stored:
//   logarithms.
// - Csv: types by `fields`; a column without one is kInt64 when all its values are whole numbers of
//   64 bits, or are all 8-digit hexadecimal words under a name C<number>; kFloat when all are
//   numbers; else kText. Numbers with a leading zero or a plus sign, and whole ones beyond an
//   int64, are text. NaturalTypes::kExact: numbers with a fraction and hexadecimal words are text,
//   too. Missing: `missing`, NaN, and empty text.
// - Parquet, Orc, Arrow: what the file says. Integers, dates and times are kInt64; decimals and
// other
//   numbers kFloat (NaturalTypes::kExact: doubles and decimals are kText); strings and binary
//   kText. Lists are bags, lists of lists sequences of bags.
// - Libfm: "label" (kFloat, -1 reads as 0), then "f1".."fN" (kInt64, with `weights` where a value
// is not
//   1) when the first lines all have N features; else "features", the whole line as a bag.
//
// Used by one thread.
class BlockReader {
 public:
  virtual ~BlockReader() = default;

  // Overwrites `block` with the next rows (some thousands, at least one) and returns true; false at
  // the end. Throws Error for rows that cannot be read.
  virtual bool next(Block& block) = 0;
  virtual const std::vector<ColumnSpec>& schema() const = 0;
  virtual int64_t bad_rows() const = 0;  // skipped so far
  virtual int64_t bytes_read() const = 0;
  virtual int64_t total_bytes() const = 0;  // size of all files
  virtual const std::vector<std::string>& files() const = 0;
  virtual const std::vector<int64_t>& rows_of_files() const = 0;  // read so far, by file
};

// Throws Error when files are missing, empty, or do not fit the source.
std::unique_ptr<BlockReader> open_reader(const DataSource& source);

// Guesses by the first bytes of a file, the ending of the name, what is in a folder, and the
// first line of text. Throws Error that lists the formats when nothing fits.
config::DatasetType guess_format(const std::string& path, const Storage& storage = nullptr);

// The same by what says it for certain: the first bytes of a columnar file, what is in a folder,
// and the ending of a name (".csv", ".libfm", ".bin", ...). Nothing for other text.
std::optional<config::DatasetType> known_format(const std::string& path,
                                                const Storage& storage = nullptr);

// What is known of a CSV file; with any of the first three set, a path is one whatever it looks
// like.
struct CsvHints {
  std::string delimiter;            // "": guessed
  std::optional<bool> with_header;  // unset: guessed
  std::vector<std::string> names;   // names of all columns of a file without a header
  std::string known_column;         // the first line is a header if it has this name
};

// A source for `path` with everything else guessed: the format, and for a CSV file delimiter and
// header. Columns of a file without a header are called column1, column2, ...
DataSource guess_source(const std::string& path, const CsvHints& hints = {},
                        const Storage& storage = nullptr);

// The columns of a CSV source in the order of the file; some names in a header may be "".
std::vector<std::string> csv_names(const DataSource& source);

}  // namespace emblem
