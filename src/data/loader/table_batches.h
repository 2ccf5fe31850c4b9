// data/loader/table_batches.h - a batch of a table that is given at once, as for one step of
// training. Rows that come one table after the other for longer are read by a Loader.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"
#include "data/feature/transform.h"
#include "data/format/memory/table.h"
#include "data/items/candidate_logs.h"

namespace emblem {

// Used by one thread.
class TableBatches {
 public:
  TableBatches(const config::DataConfig& data, const FeatureLayout& features,
               LabelCheck labels = LabelCheck::kByKind);
  ~TableBatches();

  // Overwrites `batch` with all rows of `table`, in their order, but those that data_config.filters
  // drop. Throws Error that names the column or the row where one cannot be read; all tables have
  // the columns and types of the first.
  void make(const std::shared_ptr<const ColumnTable>& table, Batch& batch);

 private:
  struct Reader;

  const config::DataConfig data_;
  const FeatureLayout features_;
  const LabelCheck labels_;
  std::unique_ptr<CandidateDraws> draws_;  // null: scores of candidates are not corrected
  std::unique_ptr<Reader> reader_;         // null until the first table says what columns there are
};

}  // namespace emblem
