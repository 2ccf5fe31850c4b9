// data/format/columnar/parquet_values.h - the values of a stored Parquet column as those of a
// Column. Internal to data/format: includes libparquet.
#pragma once

#include <parquet/column_reader.h>
#include <parquet/file_reader.h>

#include <memory>
#include <vector>

#include "data/format/columnar/columnar_field.h"
#include "data/format/columnar/parquet_column.h"

namespace emblem {

// Values of one column chunk in their order, some at a time. Used by one thread.
class ParquetValues {
 public:
  virtual ~ParquetValues() = default;

  // Fetches up to `levels` levels, and their values, which replace those fetched before. Null where
  // levels are not wanted. Returns the number of levels, 0 at the end, and that of values.
  virtual int64_t fetch(int64_t levels, int16_t* definition, int16_t* repetition,
                        int64_t& values) = 0;
  // Appends fetched values [begin, begin + count) to `out`.
  virtual void append(int64_t begin, int64_t count, Column& out,
                      std::vector<ValueProblem>& problems) = 0;
  // Appends a value for each level: the fetched values from `begin` on where the level is
  // `max_level`, else missing ones.
  virtual void append_levels(const int16_t* definition, int64_t levels, int16_t max_level,
                             int64_t begin, Column& out, std::vector<ValueProblem>& problems) = 0;
  // Fetches up to `rows` values of a column without lists straight to the end of `out`. Returns
  // their number; -1 where there is no such way.
  virtual int64_t fetch_to(int64_t rows, int16_t* definition, int16_t max_level, Column& out) {
    (void)rows, (void)definition, (void)max_level, (void)out;
    return -1;
  }
  virtual int64_t skip(int64_t values) = 0;
};

std::unique_ptr<ParquetValues> open_parquet_values(parquet::RowGroupReader& group, int column,
                                                   const ColumnRead& how, ParquetBuffers& buffers);

}  // namespace emblem
