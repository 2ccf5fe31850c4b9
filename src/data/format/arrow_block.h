// data/format/arrow_block.h - Arrow record batches become blocks: those of IPC and ORC files, and
// those of messages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/format/column_fit.h"
#include "data/format/columnar_field.h"

namespace arrow {
class Array;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace emblem {

// A column of a schema: its field, and where it is (the column, then fields of structs).
struct ArrowField {
  ColumnarField field;
  std::vector<int> path;
};

// All columns, with the fields of structs as columns of their own.
std::vector<ArrowField> arrow_fields(const arrow::Schema& schema);

// The entries of the dictionary that was read last, so that they are converted once.
struct ArrowDictionary {
  std::shared_ptr<arrow::Array> array;
  std::shared_ptr<TextDictionary> entries;
};

// Overwrites `out` with rows [begin, begin + rows) of a column. Values that do not fit are 0 and
// added to `problems`. Throws Error that names `place` when the batch is not valid.
void read_arrow_column(const arrow::RecordBatch& batch, const ArrowField& field,
                       const ColumnRead& how, int64_t begin, int64_t rows,
                       ArrowDictionary& dictionary, const std::string& place, Column& out,
                       std::vector<ValueProblem>& problems);

// Record batches of one schema as blocks. Made once; read may run concurrently.
class ArrowBlocks {
 public:
  // `requests` as for make_decoder; null: all columns, with their natural types. Throws Error that
  // names `source` when a column is not there, with the nearest name, or cannot be read.
  ArrowBlocks(const arrow::Schema& schema, const std::vector<ColumnRequest>* requests,
              const std::vector<std::string>& na_strings, const std::string& source);
  ~ArrowBlocks();

  // Of the blocks: one a request, in the order of the requests.
  const std::vector<ColumnSpec>& columns() const { return columns_; }

  // Overwrites `block` with all rows of `batch`, which has the schema. Rows that cannot be read are
  // in the block, with other values, and in `problems`, by row (data/format/select_rows.h drops
  // them). Throws Error that names `place` when the batch is not valid.
  void read(const arrow::RecordBatch& batch, const std::string& place, Block& block,
            std::vector<RowProblem>& problems) const;

 private:
  std::vector<ArrowField> fields_;  // of the requests
  std::vector<ColumnFit> fits_;
  std::vector<ColumnSpec> columns_;
};

}  // namespace emblem
