// data/format/memory/array_format.h - what the format strings of the Arrow C data interface say of
// an array.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/format/columnar/columnar_field.h"
#include "data/format/memory/arrow_c.h"

namespace emblem {

// How the values of an array lie in memory.
enum class ArrayLayout : uint8_t {
  kNull,
  kBits,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kHalf,
  kFloat,
  kDouble,
  kDecimal,
  kText,       // with offsets of 32 bits
  kLargeText,  // offsets of 64 bits
  kTextView,
  kFixedText,
  kList,  // with offsets of 32 bits; a map is one, too
  kLargeList,
  kFixedList,
  kStruct,
  kOther,  // not readable
};

struct ArrayFormat {
  ArrayLayout layout = ArrayLayout::kOther;
  LeafType leaf = LeafType::kOther;  // kOther for lists and structs, too
  std::string stored;                // as ColumnSpec::stored
  bool is_map = false;
  int size = 0;                  // bytes per value, offset or view; kFixedList: values per list
  int precision = 0, scale = 0;  // kDecimal
};

// The format of the codes where an array has a dictionary, which has a format of its own.
ArrayFormat array_format(const ArrowSchema& schema);

// The format of values that are not nested: that of the dictionary, where there is one.
ArrayFormat value_format(const ArrowSchema& schema);

// As Arrow's DataType::ToString: "list<item: int64>".
std::string type_text(const ArrowSchema& schema);

// A column of a table: its field, and where it is (the column, then fields of structs).
struct ArrayField {
  ColumnarField field;
  std::vector<int> path;
};

// All columns of `schema`, a struct, with the fields of structs as columns of their own.
std::vector<ArrayField> array_fields(const ArrowSchema& schema);

// Throws Error that names `place` where a schema, or an array that has it, is not what the
// interface promises: children and buffers that are not there, negative sizes, children that are
// shorter than their structs. What offsets and codes say is checked when they are read.
void check_schema(const ArrowSchema& schema, const std::string& place);
void check_array(const ArrowSchema& schema, const ArrowArray& array, const std::string& place);

}  // namespace emblem
