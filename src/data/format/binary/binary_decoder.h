// data/format/binary/binary_decoder.h - what formats of fixed-size records share: the columns of a
// row lie at fixed places in one or several files ("tables") of equally many records.
#pragma once

#include <string>
#include <vector>

#include "data/format/decoder.h"
#include "data/format/input_file.h"
#include "data/format/rows/row_filter.h"

namespace emblem {

enum class ElementType : uint8_t { kInt8, kUint8, kInt16, kInt32, kInt64, kFloat16, kFloat32 };

int64_t size_of(ElementType type);

// "int32", "float16", ... as numpy names them. Throws Error naming `what`.
ElementType parse_element_type(const std::string& name, const std::string& what);

// Where a column is: `offset` bytes into the records of `table`.
struct BinaryField {
  int table = 0;
  int64_t offset = 0;
  ElementType type = ElementType::kInt32;
};

struct BinaryTable {
  InputFile file;
  int64_t record_bytes = 0;
};

// The tables of one part of a data set: one Raw file, one split folder.
struct BinaryPart {
  std::string name;  // stands for the part in messages
  std::vector<BinaryTable> tables;
  std::vector<BinaryField> fields;  // by column of the schema
  int64_t records = 0;
};

// 32-bit integers are read as unsigned where a column is kInt64 (a category), as signed where it is
// kFloat.
class BinaryDecoder final : public Decoder {
 public:
  // Decodes the requested columns of `schema`, all of them when `requests` is null. `name` stands
  // for the format in messages: "a RawDataset".
  BinaryDecoder(const std::vector<ColumnSpec>& schema, std::vector<BinaryPart> parts,
                const DataSource& source, const std::vector<ColumnRequest>* requests,
                const std::string& name);

  const std::vector<ColumnSpec>& columns() const override { return columns_; }
  const std::vector<std::string>& files() const override { return names_; }
  ExtentUnit unit() const override { return ExtentUnit::kRecords; }
  Extent extent(int file) const override { return {0, parts_[file].records}; }
  int64_t file_bytes(int file) const override;
  std::string read_directly() override;
  void prefetch(int file, Extent range) const override;
  void decode(int file, Extent range, const RowSample& sample, const Random* shuffle,
              DecodedPiece& out) const override;
  std::string locate(int file, int64_t position) const override;

 private:
  // Reads the tables that are wanted to `buffer`; null for the others.
  std::vector<char*> read_tables(const BinaryPart& part, Extent range,
                                 HostVector<char>& buffer) const;
  void spread_columns(const BinaryPart& part, const std::vector<char*>& tables, Block& block) const;
  bool keeps(const BinaryPart& part, const std::vector<char*>& tables, int64_t record) const;
  // Fields of the part that are read, in any order and more than once.
  std::vector<int> fields_read() const;
  void keep_rows(const BinaryPart& part, const std::vector<char*>& tables, int64_t rows,
                 TextColumn& kept) const;

  std::vector<ColumnSpec> columns_;
  std::vector<int> wanted_;  // column -> field
  std::vector<int> kept_;    // fields
  std::vector<RowFilter> filters_;
  std::vector<int> filtered_;  // fields, by filter
  std::vector<ColumnType> field_types_;
  std::vector<BinaryPart> parts_;
  std::vector<std::string> names_;
};

// Converts `count` elements that are `stride` bytes apart.
void load_floats(const char* from, int64_t stride, ElementType type, int64_t count, float* to);
void load_keys(const char* from, int64_t stride, ElementType type, int64_t count, int64_t* to);

}  // namespace emblem
