// data/items/text_rows.h - rows of texts become features, as columns of CSV do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"
#include "data/feature/column_requests.h"
#include "data/format/text/csv_field.h"

namespace emblem {

class TextRows {
 public:
  // `columns`: what the texts of a row are; features of `layout` read no others. `file` is for
  // messages.
  TextRows(const config::DataConfig& data, const FeatureLayout& layout,
           const std::vector<std::string>& columns, std::string file);

  // Adds a row. Returns what is wrong with its texts, or "".
  std::string add(const std::vector<std::string_view>& texts);
  int64_t rows() const { return piece_.block.rows; }

  // All rows, laid out by `layout`. Throws Error that names the file and the row for ones that are
  // not what features read. The rows are gone.
  Batch features();

 private:
  const config::DataConfig data_;
  const FeatureLayout layout_;
  const std::string file_;
  std::vector<ColumnRequest> requests_;
  std::vector<size_t> places_;  // of requests, in the texts of a row
  MissingTexts missing_;
  DecodedPiece piece_;
};

}  // namespace emblem
