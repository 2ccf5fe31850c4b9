#include "ps/loading/redis_filler.h"

#include <algorithm>
#include <thread>

#include "core/log.h"
#include "core/thread_pool.h"
#include "ps/tables/database_notes.h"

namespace emblem {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};  // while another server fills

// Whether rows are missing, unless a server is filling the table right now.
bool is_unfinished(const std::optional<std::string>& note) {
  return !note || *note == kRefilling || *note == kIncomplete;
}

}  // namespace

RedisFiller::RedisFiller(Databases& databases) : databases_(databases), redis_(*databases.redis) {}

// ---- at the start ----

void RedisFiller::fill(const std::string& model, std::span<const Table> tables,
                       int64_t updates_included) {
  const bool served_meanwhile = std::all_of(
      tables.begin(), tables.end(), [](const Table& table) { return table.source.l3 != nullptr; });
  bool told = false;
  while (try_fill(model, tables, updates_included) == Filled::kByAnother) {
    if (served_meanwhile) return;
    if (!std::exchange(told, true))
      log_info(cat("model ", model, ": another server is filling ", redis_.describe()));
    std::this_thread::sleep_for(kLookInterval);
  }
  // Of tables that were filled by others than Emblem, or before it kept this.
  if (!tables.empty() && !delta_sequence(redis_, model))
    begin(model, tables.front().source, updates_included);
}

RedisFiller::Filled RedisFiller::try_fill(const std::string& model, std::span<const Table> tables,
                                          int64_t updates_included) {
  const auto list_missing = [&] {
    std::vector<const Table*> missing;
    for (const Table& table : tables) {
      if (redis_.note(content_note(table.name)) != table.content) missing.push_back(&table);
    }
    return missing;
  };
  std::lock_guard changing(databases_.changing);
  if (list_missing().empty()) return Filled::kAll;
  const auto lock = TableLock::try_take(redis_, model);
  if (lock == nullptr) return Filled::kByAnother;
  const auto missing = list_missing();  // another server may have filled it just before
  if (missing.empty()) return Filled::kAll;
  begin(model, missing.front()->source, updates_included);
  ThreadPool threads(std::clamp(static_cast<int>(missing.size()), 1, available_cpus()));
  try {
    parallel_for({.threads = &threads}, static_cast<int64_t>(missing.size()), 1,
                 [&](int64_t i, int64_t) { fill_table(*missing[static_cast<size_t>(i)], *lock); });
  } catch (const TableLockLost&) {
    return Filled::kByAnother;
  }
  return Filled::kAll;
}

// Which deltas the rows have: noted before they are written, so that none is taken for applied
// should this server die.
void RedisFiller::begin(const std::string& model, const RowSource& source,
                        int64_t updates_included) {
  int64_t sequence = updates_included;
  if (source.l3 != nullptr)
    sequence = delta_sequence(*databases_.rocksdb, model).value_or(updates_included);
  set_delta_sequence(redis_, model, sequence);
}

void RedisFiller::fill_table(const Table& table, TableLock& lock) {
  const std::string note = content_note(table.name);
  const auto before = redis_.note(note);
  // Where another version has all its rows there, they can be read meanwhile.
  const bool whole = before && *before != kRefilling;
  lock.keep();
  redis_.set_note(note, whole ? kIncomplete : kRefilling);
  copy_rows(table.source, *table.l2, [&] { lock.keep(); });
  lock.keep();
  redis_.set_note(note, table.content);
}

// ---- after a loss ----

void RedisFiller::guard(const std::shared_ptr<ServedModel>& model, std::vector<Table> tables,
                        int64_t updates_included) {
  std::lock_guard lock(mutex_);
  std::erase_if(guarded_, [](const auto& at) { return at.second.model.expired(); });
  for (Table& table : tables) {
    Guarded guarded{.model = model, .table = table, .updates_included = updates_included};
    for (const auto& [name, served] : model->tables()) {
      if (served->settings().name == table.name) guarded.served = served;
    }
    guarded_[table.name] = std::move(guarded);
  }
}

void RedisFiller::refill_lost() {
  std::map<std::string, Guarded> guarded;
  {
    std::lock_guard lock(mutex_);
    guarded = guarded_;
  }
  for (const auto& [name, at] : guarded) {
    if (!at.model.expired() && is_unfinished(redis_.note(content_note(name)))) refill(at);
  }
}

void RedisFiller::refill(const Guarded& lost) {
  const auto model = lost.model.lock();
  const auto served = lost.served.lock();
  if (model == nullptr || served == nullptr) return;
  std::lock_guard changing(databases_.changing);
  const auto lock = TableLock::try_take(redis_, model->name());
  if (lock == nullptr) return;  // another server is filling it
  const Table& table = lost.table;
  if (!is_unfinished(redis_.note(content_note(table.name)))) return;
  log_warn(cat(redis_.describe(), " has lost rows of ", table.name, "; filling it from ",
               table.source.describe()));
  begin(model->name(), table.source, lost.updates_included);
  served->refill_l2([&](KvTable&) { fill_table(table, *lock); });
}

}  // namespace emblem
