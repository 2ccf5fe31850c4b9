#include "ps/updates/delta_watcher.h"

#include "core/log.h"
#include "ps/config/sparse_folder.h"

namespace emblem {

DeltaWatcher::DeltaWatcher(std::string folder, std::chrono::milliseconds every, Models models,
                           Applied applied)
    : folder_(std::move(folder)),
      models_(std::move(models)),
      applied_(std::move(applied)),
      thread_([this, every] { work(every); }) {}

DeltaWatcher::~DeltaWatcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void DeltaWatcher::work(std::chrono::milliseconds every) {
  for (;;) {
    look();
    std::unique_lock lock(mutex_);
    if (stopping_.wait_for(lock, every, [&] { return stop_; })) return;
  }
}

void DeltaWatcher::look() {
  std::lock_guard lock(looking_);
  const std::vector<DeltaFolder> deltas = list_deltas(folder_);
  for (const auto& model : models_()) bring_up_to_date(*model, deltas);
}

void DeltaWatcher::bring_up_to_date(ServedModel& model, const std::vector<DeltaFolder>& deltas) {
  for (const DeltaFolder& delta : deltas) {
    if (delta.sequence <= model.sequence()) continue;
    if (delta.sequence != model.sequence() + 1) {
      log_warn(cat("model ", model.name(), ", version ", model.version(), ": after delta ",
                   model.sequence(), " comes ", delta.sequence, " in ", folder_,
                   "; rows of those between may be old"));
    }
    try {
      apply(model, delta);
    } catch (const std::exception& error) {
      model.note_error();
      if (last_error_ != error.what()) {
        log_error(cat("model ", model.name(), ", version ", model.version(), ": delta ",
                      delta.sequence, " waits: ", error.what()));
      }
      last_error_ = error.what();
      return;
    }
    last_error_.clear();
  }
}

void DeltaWatcher::apply(ServedModel& model, const DeltaFolder& delta) {
  const DeltaManifest manifest = read_delta_manifest(delta);
  std::vector<std::pair<ServedTable*, SparseFolder>> sources;
  uint64_t rows = 0;
  for (const DeltaTable& table : manifest.tables) {  // all is checked before anything is changed
    ServedTable& served = model.table(table.name);
    EMBLEM_REQUIRE(served.dim() == table.dim, delta.path, ": table ", table.name,
                   " has rows of dimension ", table.dim, ", but the model's have ", served.dim());
    SparseFolder folder(cat(delta.path, "/", table.name), table.dim);
    if (folder.rows() != table.rows) {
      throw Error(ErrorCode::kCorruption, cat(delta.path, ": table ", table.name, " has ",
                                              folder.rows(), " rows, not ", table.rows));
    }
    rows += static_cast<uint64_t>(table.rows);
    sources.emplace_back(&served, std::move(folder));
  }
  for (auto& [table, folder] : sources) {
    folder.read([&, to = table](std::span<const int64_t> keys, std::span<const float> values) {
      to->apply(keys, values);
    });
  }
  applied_(model, delta.sequence);
  model.set_sequence(delta.sequence);
  model.note_update(manifest.created_unix_ms, rows);
}

}  // namespace emblem
