// data/format/columnar/column_selection.h - which columns of a data set are read, and how.
#pragma once

#include <string>
#include <vector>

#include "data/format/columnar/columnar_field.h"
#include "data/format/decoder.h"
#include "data/format/rows/column_fit.h"
#include "data/format/rows/row_filter.h"

namespace emblem {

// Made once; const methods may run concurrently.
struct ColumnSelection {
  // Reads filters, kept columns, na_strings and natural types of `source`; `fields` are those of
  // `first`, for messages. Throws Error where a column is not there or cannot be read.
  ColumnSelection(const DataSource& source, const std::vector<ColumnRequest>* requests,
                  const std::vector<ColumnarField>& fields, const std::string& first);

  // How `path`, which has `of_file`, perhaps in another order, is read: columns, then those of
  // filters, then kept ones. Throws Error where columns or types are not those of `first`.
  std::vector<ColumnRead> reads(const std::vector<ColumnarField>& of_file,
                                const std::string& path) const;

  bool all_columns = false;
  std::string first;
  std::vector<ColumnSpec> names;    // all of `first`
  std::vector<ColumnSpec> columns;  // columns of blocks
  std::vector<RowFilter> filters;
  std::vector<ColumnarField> fields;  // fields of columns, filters and kept columns
  std::vector<ColumnFit> fits;        // fits of the same
};

}  // namespace emblem
