// data/format/decoder.h - turns pieces of files into blocks. One decoder per format;
// data/format/reader.h reads with it front to back, data/loader/loader.h from many threads and
// in any order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/math/random.h"
#include "data/batch.h"
#include "data/format/block.h"
#include "data/format/reader.h"
#include "data/format/rows/trained_values.h"
#include "data/format/text/number_form.h"
#include "emblem/error.h"

namespace emblem {

// How text in a column of labels is read, in addition to numbers.
enum class LabelText : uint8_t {
  kNone,      // not a label
  kWords,     // true, yes, t, y are 1; false, no, f, n are 0
  kPositive,  // label_positive is 1, all else is 0
};

// A column that is wanted. Text is read as the request says, and columnar formats convert to its
// type; other formats give their own types.
struct ColumnRequest {
  std::string name;
  ColumnType type = ColumnType::kFloat;
  // CSV: each of these characters parts the values of a bag; "": one value per row
  std::string separators;
  // CSV: the text of a row is a sequence of elements with this between them, each a bag of values;
  // "": not a sequence.
  std::string sequence_delim;
  bool weighted = false;               // CSV: values are "key:weight"
  bool hexadecimal = false;            // CSV: kInt64 is written in hexadecimal
  bool na_is_missing = false;          // CSV: "NA", "null" and the like are missing values
  LabelText label = LabelText::kNone;  // CSV, kFloat
  std::string label_positive;
  NumberForm number_form;        // kFloat: how numbers are written
  std::string advice;            // CSV: what to do where a value is no integer, for messages
  bool codes = false;            // columnar formats, kText: Column::dictionary may be used
  bool numbers_as_text = false;  // columnar formats, kText: numbers become their decimal text
  TrainedValues trained;         // what values of other kinds and spellings become
  std::optional<config::FieldType> declared;  // by data_config.input_fields: text is of this type

  // Whether rows or elements hold bags of values.
  bool has_bags() const { return !separators.empty() || !sequence_delim.empty(); }
  // The same values, whatever messages say.
  bool operator==(const ColumnRequest& other) const;
};

// [begin, end) of a file: bytes of text (the lines that start there), records of a binary format.
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;
};

enum class ExtentUnit { kBytes, kRecords };

// A data set may be split in two: rows to train on and rows held out for evaluations.
enum class RowPart : uint8_t { kAll, kTraining, kHoldout };

// Keeps a share of the rows of one part. What happens to a row depends on the seed and on the row's
// position alone: it is the same in every epoch. Part and share are independent of each other.
struct RowSample {
  double ratio = 1.0;
  uint64_t seed = 0;
  double holdout_ratio = 0.0;
  RowPart part = RowPart::kAll;

  bool keeps_all() const { return ratio >= 1.0 && part == RowPart::kAll; }
  bool keeps(int file, int64_t position) const {
    return is_in_part(file, position) && draw(0x73616d706c650000ull, file, position) < ratio;
  }

 private:
  bool is_in_part(int file, int64_t position) const {
    if (part == RowPart::kAll) return true;
    const bool held_out = draw(0x686f6c646f757400ull, file, position) < holdout_ratio;
    return held_out == (part == RowPart::kHoldout);
  }
  // Uniform in [0, 1).
  double draw(uint64_t stream, int file, int64_t position) const {
    const uint64_t bits =
        random_bits(seed, stream + static_cast<uint64_t>(file), static_cast<uint64_t>(position));
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }
};

// Rows that could not be read: how many, and the first of them in the file.
struct BadRows {
  int64_t count = 0;
  int64_t position = 0;
  std::string what;

  void add(int64_t at, std::string message) {
    if (count++ == 0 || at < position) {
      position = at;
      what = std::move(message);
    }
  }
};

// What a decoder keeps between the pieces that one thread decodes one after the other.
struct DecoderCursor {
  virtual ~DecoderCursor() = default;
};

struct DecodedPiece {
  int file = 0;
  Block block;
  // Position of each row: its first byte (text) or its record number.
  HostVector<int64_t> positions;
  BadRows bad;  // not in the block
  // Positions of all bad rows, in the order in which they were read.
  std::vector<int64_t> bad_positions;
  TextColumn kept;    // as DataSource::keep asks: of every row that was read, bad ones too
  int64_t bytes = 0;  // bytes of input

  // Values that features compute from the block, by position in FeatureLayout::features; filled by
  // FeatureTransform.
  std::vector<Column> computed;

  // Where a decoder reads bytes into; kept so that its memory is reused.
  HostVector<char> buffer;
  HostVector<char> second_buffer;
  std::unique_ptr<DecoderCursor> cursor;
};

// Made once; const methods may run concurrently.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Columns of the blocks it makes: one per request, in the order of the requests.
  virtual const std::vector<ColumnSpec>& columns() const = 0;
  virtual const std::vector<std::string>& files() const = 0;
  virtual ExtentUnit unit() const = 0;
  virtual Extent extent(int file) const = 0;
  // What a piece lies within: the row groups of a columnar file that are read, elsewhere the whole
  // extent.
  virtual std::vector<Extent> parts(int file) const { return {extent(file)}; }
  // Whether the pieces of a part are decoded much faster one after the other, into the same
  // DecodedPiece, than each on its own.
  virtual bool reads_forward() const { return false; }
  virtual int64_t file_bytes(int file) const = 0;

  // Reads past the page cache from now on, before any other thread decodes. Returns the first file
  // whose file system refuses, which is read through it still; "" where all are.
  virtual std::string read_directly() = 0;

  // For remote files: fetches what decode() of this range reads. Returns at once.
  virtual void prefetch(int /*file*/, Extent /*range*/) const {}

  // Overwrites `out` with the rows of `range` that `sample` keeps: as they are stored, or when
  // `shuffle` is not null in the order that it gives.
  virtual void decode(int file, Extent range, const RowSample& sample, const Random* shuffle,
                      DecodedPiece& out) const = 0;

  // "train.tsv:17" or "train.bin: record 17" for messages. May read the file up to there.
  virtual std::string locate(int file, int64_t position) const = 0;

  // The Error for the first of `bad` rows.
  std::string describe(int file, const BadRows& bad) const {
    return locate(file, bad.position) + ": " + bad.what;
  }
};

// The error for the first bad row when none is allowed, or when there are `count` and only
// `allowed` are. `first` is what Decoder::describe says of it.
Error too_many_bad_rows(int64_t count, int64_t allowed, const std::string& first);

// Shuffles `items` by what `random` draws.
template <class Items>
void shuffle_items(Items& items, Random random) {
  for (size_t left = items.size(); left > 1; --left) {
    std::swap(items[left - 1], items[random.below(left)]);
  }
}

// Decodes all columns of the source with their natural types when `requests` is null.
std::unique_ptr<Decoder> make_decoder(const DataSource& source,
                                      const std::vector<ColumnRequest>* requests);

// One function a format; decoder.cc lists them.
std::unique_ptr<Decoder> make_criteo_tsv_decoder(const DataSource& source,
                                                 const std::vector<ColumnRequest>* requests);
std::unique_ptr<Decoder> make_columnar_decoder(const DataSource& source,
                                               const std::vector<ColumnRequest>* requests);
std::unique_ptr<Decoder> make_csv_decoder(const DataSource& source,
                                          const std::vector<ColumnRequest>* requests);
std::unique_ptr<Decoder> make_libfm_decoder(const DataSource& source,
                                            const std::vector<ColumnRequest>* requests);
std::unique_ptr<Decoder> make_raw_decoder(const DataSource& source,
                                          const std::vector<ColumnRequest>* requests);
std::unique_ptr<Decoder> make_split_decoder(const DataSource& source,
                                            const std::vector<ColumnRequest>* requests);

// The position of `name` in `columns`. Throws Error that names the source and the nearest column.
int find_column(const std::vector<ColumnSpec>& columns, const std::string& name,
                const std::string& source);

// The positions in `schema` of the requested columns, all of them when `requests` is null.
std::vector<int> find_columns(const std::vector<ColumnSpec>& schema,
                              const std::vector<ColumnRequest>* requests,
                              const std::string& source);

// A value in a message: in quotes, shortened, printable.
std::string in_quotes(std::string_view value);

}  // namespace emblem
