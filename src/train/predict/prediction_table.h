// train/predict/prediction_table.h - predictions as a Parquet, ORC or Arrow IPC file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/format/encoder.h"
#include "data/format/reader.h"

namespace emblem {

// The format by the ending of a name: "parquet", "orc" or "arrow"; "" for others, which are CSV.
std::string columnar_format_of(const std::string& path);

// The kept columns with their types: those of a columnar input, of other inputs text.
std::vector<ColumnSpec> kept_columns_of(const DataSource& source,
                                        std::span<const std::string> keep);

// A row for each row of the input: its kept columns, then its predictions, null where it is bad.
class PredictionTable {
 public:
  PredictionTable(const std::string& path, std::vector<ColumnSpec> kept,
                  std::span<const std::string> predictions);
  ~PredictionTable();  // without finish(): removes what was written

  // predictions[i] is that of column i, [batch.rows].
  void add(const Batch& batch, const std::vector<std::vector<float>>& predictions);
  void finish();

 private:
  std::string path_, temporary_;
  std::vector<ColumnSpec> schema_;
  size_t kept_;
  std::unique_ptr<RowEncoder> encoder_;
  std::unique_ptr<RowSink> sink_;
};

}  // namespace emblem
