#include "ps/updates/delta_watcher.h"

#include <algorithm>

#include "core/files/inner_path.h"
#include "core/system/caught_error.h"
#include "core/system/log.h"
#include "core/system/warn_once.h"
#include "core/threads/start_thread.h"
#include "ps/config/sparse_folder.h"
#include "ps/tables/database_notes.h"

namespace emblem {

void DeltaApplier::bring_up_to_date(ServedModel& model, const std::string& folder,
                                    const std::vector<DeltaFolder>& deltas) {
  if (deltas.empty()) return;
  std::unique_lock changing(databases_.changing, std::defer_lock);
  if (databases_.any()) changing.lock();
  std::unique_ptr<TableLock> lock;
  std::optional<Error> redis_is_down;
  Progress at = progress_of(model);
  if (databases_.redis != nullptr) {
    try {
      at.redis = delta_sequence(*databases_.redis, model.name());
      if (at.redis && deltas.back().sequence > *at.redis)
        lock = TableLock::try_take(*databases_.redis, model.name());
      if (lock != nullptr) at.redis = delta_sequence(*databases_.redis, model.name());
    } catch (const Error& error) {  // L3 goes ahead
      redis_is_down = error;
    }
  }
  for (const DeltaFolder& delta : deltas) {
    const Step step = step_to(at, delta.sequence, lock.get());
    if (!step.any()) continue;
    apply(model, delta, step, lock.get());
    report_gap(model, at, step, delta.sequence, folder);
    if (step.l3) at.l3 = delta.sequence;
    if (step.redis) at.redis = delta.sequence;
    if (step.own) at.own = delta.sequence;
  }
  // Rows that L3 has from before would replace newer ones.
  model.set_promoting(!at.l3 || !at.redis || *at.l3 >= *at.redis);
  if (redis_is_down) throw *redis_is_down;
}

DeltaApplier::Progress DeltaApplier::progress_of(const ServedModel& model) {
  Progress at{.l3 = {}, .redis = {}, .own = model.sequence()};
  if (databases_.updates_l3())
    at.l3 = delta_sequence(*databases_.rocksdb, model.name()).value_or(0);
  return at;
}

DeltaApplier::Step DeltaApplier::step_to(const Progress& at, int64_t sequence,
                                         const TableLock* lock) const {
  Step step;
  step.l3 = at.l3 && sequence > *at.l3;
  step.redis = at.redis && sequence > *at.redis && lock != nullptr;
  // Caches over Redis follow it.
  const bool below_has_it =
      databases_.redis == nullptr || step.redis || (at.redis && sequence <= *at.redis);
  step.own = sequence > at.own && below_has_it;
  return step;
}

void DeltaApplier::report_gap(ServedModel& model, const Progress& at, const Step& step,
                              int64_t sequence, const std::string& folder) const {
  int64_t last = sequence - 1;
  if (step.l3) last = std::min(last, *at.l3);
  if (step.redis) last = std::min(last, *at.redis);
  if (step.own) last = std::min(last, at.own);
  if (last == sequence - 1) return;
  model.note_gap(static_cast<uint64_t>(sequence - 1 - last));
  const std::string missing = last + 2 == sequence
                                  ? cat("delta ", last + 1, " is")
                                  : cat("deltas ", last + 1, " to ", sequence - 1, " are");
  log_error(
      cat("model ", model.name(), ", version ", model.version(), ": ", missing, " missing in ",
          folder, ", where the next one is ", sequence,
          "; rows that changed only there stay as they are until a newer version is exported ",
          "and loaded"));
}

void DeltaApplier::apply(ServedModel& model, const DeltaFolder& delta, const Step& step,
                         TableLock* lock) {
  const DeltaManifest manifest = read_delta_manifest(delta);
  std::vector<std::pair<ServedTable*, SparseFolder>> sources;
  uint64_t rows = 0;
  bool is_checked = true;
  for (const DeltaTable& table : manifest.tables) {  // all is checked before anything is changed
    ServedTable& served = model.table(table.name);
    EMBLEM_REQUIRE(served.dim() == table.dim, delta.path, ": table ", table.name,
                   " has rows of dimension ", table.dim, ", but the model's have ", served.dim());
    SparseFolder folder(path_below(delta.path, table.name), table.dim);
    if (folder.rows() != table.rows) {
      throw Error(ErrorCode::kCorruption,
                  cat(delta.path, ": table ", table.name, " has ", folder.rows(),
                      " rows, but its manifest says ", table.rows));
    }
    check_delta_table(delta, table);
    is_checked = is_checked && table.checksums.has_value();
    rows += static_cast<uint64_t>(table.rows);
    sources.emplace_back(&served, std::move(folder));
  }
  const bool in_memory = databases_.redis == nullptr && step.own;
  for (auto& [table, folder] : sources) {
    folder.read([&, to = table](std::span<const int64_t> keys, std::span<const float> values) {
      if (step.redis) lock->keep();
      to->apply(keys, values, {.l3 = step.l3, .l2 = step.redis || in_memory, .caches = step.own});
    });
  }
  if (step.l3) set_delta_sequence(*databases_.rocksdb, model.name(), delta.sequence);
  if (step.redis) set_delta_sequence(*databases_.redis, model.name(), delta.sequence);
  if (!step.own) return;
  if (!is_checked) {
    model.note_unchecked(1);
    warn_once("delta without checksums " + model.name(),
              cat("model ", model.name(), ": ", delta.path,
                  " has no checksums, so that damage is not noticed; it is applied, and so are "
                  "others like it (written by a version before 0.2)"));
  }
  model.set_sequence(delta.sequence);
  model.note_update(manifest.created_unix_ms, rows);
}

DeltaWatcher::DeltaWatcher(std::string folder, std::chrono::milliseconds every, Models models,
                           DeltaApplier& applier, List list)
    : folder_(std::move(folder)),
      models_(std::move(models)),
      applier_(applier),
      list_(std::move(list)) {
  look();
  thread_ = start_thread("watching for deltas", [this, every] { work(every); });
}

DeltaWatcher::~DeltaWatcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void DeltaWatcher::work(std::chrono::milliseconds every) noexcept {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (stopping_.wait_for(lock, every, [&] { return stop_; })) return;
    }
    look();
  }
}

void DeltaWatcher::look() noexcept {
  std::lock_guard lock(looking_);
  try {
    const std::vector<DeltaFolder> deltas = list_(folder_);
    bool well = true;
    for (const auto& model : models_()) {
      try {
        applier_.bring_up_to_date(*model, folder_, deltas);
      } catch (...) {
        well = false;
        const Error error = caught_error();
        model->note_error();
        log_once(cat("model ", model->name(), ", version ", model->version(), ": the delta after ",
                     model->sequence(), " waits"),
                 error);
      }
    }
    if (well) logged_.clear();
  } catch (...) {
    const Error error = caught_error();
    try {
      log_once("deltas", error);
    } catch (...) {  // no memory for the line
    }
  }
}

void DeltaWatcher::log_once(const std::string& problem, const Error& error) {
  if (logged_.emplace(problem, error.code()).second) log_error(cat(problem, ": ", error.what()));
}

}  // namespace emblem
