#include "train/delta_export.h"

#include <algorithm>

#include "embedding/files/delta_files.h"

namespace emblem {

constexpr int64_t kBatchRows = 65536;

DeltaExport::DeltaExport(std::string folder, std::vector<Table*> tables, int64_t last)
    : folder_(std::move(folder)), tables_(std::move(tables)), last_(last) {
  for (const Table* table : tables_) versions_.push_back(table->version());
  for (const DeltaFolder& delta : list_deltas(folder_)) last_ = std::max(last_, delta.sequence);
}

int64_t DeltaExport::write(const Context& context) {
  DeltaWriter writer(folder_, last_ + 1);
  for (size_t t = 0; t < tables_.size(); ++t) {
    const Table& table = *tables_[t];
    table.export_rows(
        context, kBatchRows,
        [&](const RowBatch& batch) {
          writer.add(table.settings().name, table.dim(), batch.keys, batch.weights);
        },
        versions_[t]);
  }
  writer.finish();
  for (size_t t = 0; t < tables_.size(); ++t) versions_[t] = tables_[t]->version();
  return ++last_;
}

}  // namespace emblem
