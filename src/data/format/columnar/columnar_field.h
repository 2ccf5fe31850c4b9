// data/format/columnar/columnar_field.h - the columns of columnar files (Parquet, ORC, Arrow IPC)
// as features see them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/format/block.h"
#include "data/format/decoder.h"

namespace emblem {

// What the values of a column are, in classes that are read alike.
enum class LeafType : uint8_t {
  kInteger,   // bool, int8 to int64, uint8 to uint32, dates, times, timestamps, decimals of scale 0
  kUnsigned,  // uint64: keeps its bits
  kFloat,     // float16, float
  kDouble,    // double, decimals with a scale
  kText,      // strings, binary
  kOther,     // not readable
};

struct ColumnarField {
  std::string name;  // name; a struct's fields are "struct.field"
  LeafType type = LeafType::kOther;
  int lists = 0;          // 0: one value per row; 1: a list of values; 2: a list of lists
  bool weighted = false;  // a map, or a list of structs (key, weight)
  std::string type_text;  // "list<int64>", for messages and comparisons
  std::string stored;     // type of values as in ColumnSpec::stored
  ValueType values() const;
};

// How a column is read: with what type; text: whether by codes; kDouble as text: whether with all
// digits.
struct ColumnRead {
  int field = 0;  // index into ColumnarFile::fields
  ColumnType type = ColumnType::kFloat;
  bool codes = false;
  bool exact = false;
};

// A value that is not of the type with which it is read, by its index among the column's values.
struct ValueProblem {
  int64_t value = 0;
  std::string what;
};

}  // namespace emblem
