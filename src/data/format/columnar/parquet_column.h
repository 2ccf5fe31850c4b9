// data/format/columnar/parquet_column.h - one column of a row group, read front to back. Internal
// to data/format: includes libparquet.
#pragma once

#include <parquet/column_reader.h>
#include <parquet/file_reader.h>

#include <memory>
#include <vector>

#include "data/format/columnar/columnar_field.h"
#include "data/format/columnar/parquet_schema.h"

namespace emblem {

// Levels and values as libparquet gives them: memory that the columns of a row group share.
struct ParquetBuffers {
  HostVector<int16_t> definition, repetition;
  HostVector<char> values;
};

// Used by one thread.
class ParquetColumn {
 public:
  virtual ~ParquetColumn() = default;

  // Appends the next `rows` rows to `out`, which is clear. Throws parquet::ParquetException and
  // Error where the file is damaged.
  virtual void read(int64_t rows, Column& out, std::vector<ValueProblem>& problems) = 0;
  virtual void skip(int64_t rows) = 0;
};

// Opens the leaf of a field with `lists` lists. `buffers` outlives it.
std::unique_ptr<ParquetColumn> open_parquet_column(parquet::RowGroupReader& group,
                                                   const ParquetLeaf& leaf, int lists,
                                                   const ColumnRead& how, ParquetBuffers& buffers);

}  // namespace emblem
