// init/sample.h - reads a sample of a data set into profiles of its columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/format/reader.h"
#include "init/column_profile.h"

namespace emblem {

struct DataProfile {
  DataSource source;
  std::vector<ColumnProfile> columns;  // in the order of the file; columns without a name are not
  int64_t unnamed_columns = 0;         // read
  int64_t rows_read = 0;
  int64_t bad_rows = 0;   // among those read
  double total_rows = 0;  // estimated unless all are read
  bool all_read = false;
  bool is_beginning = false;  // of longer data, whose number of rows is not known
  double distinct_rows = 0;   // rows that differ in a column of single values besides the label
  // Columns whose values each occur with one value of the label only; filled for a label with few
  // values.
  std::vector<std::string> tell_label;

  // Null when there is none.
  const ColumnProfile* find(const std::string& name) const;
};

// Reads about `rows` rows (0: all) in pieces that are spread evenly over the files. `label` may be
// "". Throws Error when a row cannot be read and source.max_bad_rows does not allow it.
DataProfile profile_data(const DataSource& source, int64_t rows, const std::string& label);

}  // namespace emblem
