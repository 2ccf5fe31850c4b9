// data/format/columnar/arrow_table.h - what Arrow's readers read, as tables in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/format/memory/array_format.h"
#include "data/format/memory/table.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace emblem {

// Without a copy. Throws Error that names `place` when the batch is not valid.
std::shared_ptr<const ColumnTable> table_of(const arrow::RecordBatch& batch,
                                            const std::string& place);

// Its columns, with the fields of structs as columns of their own.
std::vector<ArrayField> array_fields_of(const arrow::Schema& schema, const std::string& place);

}  // namespace emblem
