// data/format/columnar/parquet_schema.h - the columns of a Parquet file as features see them.
// Internal to data/format: includes libparquet.
#pragma once

#include <parquet/schema.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/format/columnar/columnar_field.h"

namespace emblem {

// One stored column.
struct ParquetLeaf {
  int column = -1;        // in the file's schema; -1: none
  int16_t max_level = 0;  // the definition level of values
  // The definition levels from which on the outer list, or the only one, and the inner list have an
  // element.
  int16_t outer_level = 0, inner_level = 0;
};

struct ParquetField {
  ColumnarField field;
  ParquetLeaf values;
  ParquetLeaf weights;  // weights of weighted fields
};

// Lists of two and of three levels, maps, and structs, whose fields are columns of their own.
std::vector<ParquetField> parquet_fields(const parquet::SchemaDescriptor& schema);

bool is_unsigned(const parquet::ColumnDescriptor& column);

// Decimals are numbers with this many digits after the point; others have 0.
int parquet_scale(const parquet::ColumnDescriptor& column);

}  // namespace emblem
