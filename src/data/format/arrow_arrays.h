// data/format/arrow_arrays.h - columns as Arrow arrays, for writers. Internal to data/format:
// includes Arrow.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <memory>
#include <string>
#include <vector>

#include "data/format/block.h"

namespace emblem {

// Numbers are floats, ids int64, text strings; bags and sequences are lists, weighted bags lists of
// structs (key, weight). Missing values are nulls.
std::shared_ptr<arrow::Schema> arrow_schema(const std::vector<ColumnSpec>& columns);

// Throws Error that names the column when a block is not what `columns` say.
std::shared_ptr<arrow::RecordBatch> arrow_batch(const std::vector<ColumnSpec>& columns,
                                                const std::shared_ptr<arrow::Schema>& schema,
                                                const Block& block);

}  // namespace emblem
