#include "train/state/delta_export.h"

#include <algorithm>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "comm/bytes.h"
#include "core/system/log.h"
#include "train/state/whole_rows.h"

namespace emblem {

namespace {

constexpr int64_t kBatchRows = 65536;

enum class Which { kOldest, kNewest };

// The number of the last delta that a checkpoint contains; nothing when there is no checkpoint.
std::optional<int64_t> deltas_in_checkpoint(const std::string& model_dir, Which which) {
  std::vector<CheckpointEntry> checkpoints = list_checkpoints(model_dir);
  if (which == Which::kNewest) std::reverse(checkpoints.begin(), checkpoints.end());
  for (const CheckpointEntry& checkpoint : checkpoints) {
    try {
      return open_checkpoint(checkpoint.path, Verify::kSizes).manifest.deltas;
    } catch (const Error&) {  // damaged: it cannot be exported
    }
  }
  return std::nullopt;
}

// What a rank sends to rank 0.
struct ChangedRows {
  void add(const RowBatch& batch) {
    keys.append(reinterpret_cast<const char*>(batch.keys.data()), batch.keys.size_bytes());
    weights.append(reinterpret_cast<const char*>(batch.weights.data()), batch.weights.size_bytes());
  }
  std::string keys, weights;
};

template <class T>
std::span<const T> as(const std::string& bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

DeltaExport::DeltaExport(std::string folder, std::vector<Table*> tables, int64_t last,
                         const World& world)
    : folder_(std::move(folder)), tables_(std::move(tables)), world_(world), last_(last) {
  for (const Table* table : tables_) versions_.push_back(table->version());
  for (const DeltaFolder& delta : list_deltas(folder_)) last_ = std::max(last_, delta.sequence);
}

int64_t DeltaExport::write(const Context& context, const DeltaOrigin& origin) {
  const bool writes = world_.writes();
  std::optional<DeltaWriter> writer;
  if (writes) writer.emplace(folder_, last_ + 1);
  const auto add = [&](const std::string& table, int64_t dim, std::span<const int64_t> keys,
                       std::span<const float> rows) {
    const int64_t refused = writer->add(table, dim, keys, rows);
    if (refused > 0)
      log_warn(cat("delta ", last_ + 1, ": ", refused, " rows of table ", table,
                   " are NaN or infinite and were skipped; lower the learning rate"));
  };
  for (size_t t = 0; t < tables_.size(); ++t) {
    const Table& table = *tables_[t];
    const std::string& name = table.settings().name;
    if (table.settings().columns.of > 0) {
      export_whole_rows(
          context, *world_.ranks, world_.plan->of(name), table, kBatchRows, 0,
          [&](const RowBatch& batch) {
            add(name, table.settings().row_dim(), batch.keys, batch.weights);
          },
          versions_[t]);
      continue;
    }
    ChangedRows changed;
    if (writes || !world_.is_replicated(name))
      table.export_rows(
          context, kBatchRows,
          [&](const RowBatch& batch) {
            if (writes)
              add(name, table.dim(), batch.keys, batch.weights);
            else
              changed.add(batch);
          },
          versions_[t]);
    const std::vector<std::string> keys = gather_bytes(*world_.ranks, changed.keys);
    const std::vector<std::string> weights = gather_bytes(*world_.ranks, changed.weights);
    for (size_t rank = 1; rank < weights.size(); ++rank)
      add(name, table.dim(), as<int64_t>(keys[rank]), as<float>(weights[rank]));
  }
  if (writes) writer->finish(origin);
  for (size_t t = 0; t < tables_.size(); ++t) versions_[t] = tables_[t]->version();
  return ++last_;
}

void DeltaExport::remove_old(const std::string& model_dir,
                             const config::TrainConfig& config) const {
  if (config.keep_delta_max() == 0) return;
  try {
    const auto contained = deltas_in_checkpoint(
        model_dir, config.keep_checkpoint_max() > 0 ? Which::kOldest : Which::kNewest);
    if (!contained) return;
    const int64_t beyond = last_ - static_cast<int64_t>(config.keep_delta_max());
    remove_deltas(folder_, std::min(*contained, beyond));
  } catch (const std::exception& error) {
    log_warn(cat("old deltas stay in ", folder_, ": ", error.what()));
  }
}

}  // namespace emblem
