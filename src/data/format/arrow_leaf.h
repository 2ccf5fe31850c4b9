// data/format/arrow_leaf.h - values of Arrow arrays that are not nested. Internal to data/format:
// includes Arrow.
#pragma once

#include <arrow/array.h>
#include <arrow/type.h>

#include <cmath>
#include <vector>

#include "data/format/arrow_block.h"
#include "data/format/leaf_values.h"

namespace emblem {

// kOther for lists, structs, and what has no reader.
LeafType arrow_leaf_type(const arrow::DataType& type);

// As ColumnSpec::stored.
std::string arrow_stored_type(const arrow::DataType& type);

// Of LeafType::kDouble: appends values [begin, end) to the text of `out`, with all digits.
void append_arrow_digits(const arrow::Array& array, int64_t begin, int64_t end, Column& out);

// Appends values [begin, end) to `out`, whose type is set. With `codes`, text of a dictionary is
// appended by code; `dictionary` keeps the entries.
void append_arrow_values(const arrow::Array& array, int64_t begin, int64_t end, bool codes,
                         ArrowDictionary& dictionary, Column& out,
                         std::vector<ValueProblem>& problems);

}  // namespace emblem
