// data/format/block.h - what a decoder makes of a piece of a file: typed columns, before feature
// transforms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/host_vector.h"

namespace emblem {

enum class ColumnType : uint8_t { kFloat, kInt64, kText };

// One input column, or what a feature makes of columns. A row holds one value unless `offsets` says
// otherwise. With `sequence_offsets` a row is a sequence of elements, and an element holds what a
// row holds without it: `offsets` then counts elements.
struct Column {
  ColumnType type = ColumnType::kFloat;
  HostVector<float> floats;        // kFloat: the values; a missing one is NaN
  HostVector<int64_t> ints;        // kInt64: the values
  std::string text;                // kText: the values, one after the other
  HostVector<uint32_t> text_ends;  // kText: value i is text[text_ends[i - 1], text_ends[i])
  HostVector<uint8_t> missing;     // kInt64: 1 where a value is missing; empty when none is
  HostVector<int32_t> offsets;  // [bags + 1] when rows or elements hold bags of values; else empty
  HostVector<float> weights;    // one a value, or empty
  HostVector<int32_t> sequence_offsets;  // [rows + 1]: row r's elements are
                                         // [sequence_offsets[r], sequence_offsets[r + 1]); or empty
};

struct ColumnSpec {
  std::string name;
  ColumnType type = ColumnType::kFloat;
};

// Rows of a data set; columns.size() equals that of the schema they were decoded with.
struct Block {
  int64_t rows = 0;
  std::vector<Column> columns;
};

// The shape of Criteo-like data sets, which all binary formats have: label, I1..I<dense>,
// C1..C<sparse>.
std::vector<ColumnSpec> criteo_schema(int num_dense = 13, int num_sparse = 26);

}  // namespace emblem
