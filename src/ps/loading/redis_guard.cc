#include "ps/loading/redis_guard.h"

#include <algorithm>

#include "core/system/log.h"
#include "ps/loading/file_rows.h"

namespace emblem {
namespace {

std::string list_of(const std::vector<size_t>& parts) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), kMost); ++i)
    text += cat(i == 0 ? "" : ", ", parts[i]);
  return parts.size() > kMost ? text + ", ..." : text;
}

}  // namespace

void RedisGuard::guard(const std::shared_ptr<ServedModel>& model,
                       std::vector<RedisFiller::Table> tables, int64_t updates_included) {
  std::lock_guard lock(mutex_);
  std::erase_if(guarded_, [](const auto& at) { return at.second.model.expired(); });
  for (RedisFiller::Table& table : tables) {
    Guarded guarded{.model = model,
                    .table = table,
                    .served = table.served,
                    .updates_included = updates_included};
    guarded.table.served = nullptr;
    guarded_[table.name] = std::move(guarded);
  }
}

void RedisGuard::look() {
  std::lock_guard one_at_a_time(looking_);
  std::map<std::string, Guarded> guarded;
  {
    std::lock_guard lock(mutex_);
    guarded = guarded_;
  }
  for (auto& [name, at] : guarded) {
    const auto model = at.model.lock();
    at.table.served = at.served.lock();
    if (model != nullptr && at.table.served != nullptr)
      look_at(*model, at.table, at.updates_included);
  }
}

void RedisGuard::look_at(ServedModel& model, const RedisFiller::Table& table,
                         int64_t updates_included) {
  RedisFiller::Lost lost = filler_.find_lost(table);
  report(table, lost);
  if (lost.nothing()) return;
  if (!lost.parts.empty() && table.source.l3 == nullptr) serve_from_files(table, lost.parts);
  if (!filler_.refill(model.name(), table, updates_included)) return;
  lost = filler_.find_lost(table);
  report(table, lost);
}

void RedisGuard::report(const RedisFiller::Table& table, const RedisFiller::Lost& lost) {
  table.served->set_lost_parts(lost.parts.size());
  std::vector<size_t>& reported = reported_[table.name];
  if (lost.parts.empty()) table.served->set_fallback(nullptr);
  if (reported == lost.parts) return;
  reported = lost.parts;
  if (lost.parts.empty())
    return log_info(cat(redis_.describe(), " has all rows of ", table.name, " again"));
  log_warn(cat(redis_.describe(), " has lost or damaged rows of ", table.name, " in ",
               lost.parts.size(), " of ", table.l2->partitions(), " partitions (",
               list_of(lost.parts), "); they are served from ",
               table.source.l3 != nullptr ? "the database on disk" : "the files of the model",
               " until they are filled again"));
}

// They are as old as the files: updates since then come back with the deltas.
void RedisGuard::serve_from_files(const RedisFiller::Table& table,
                                  const std::vector<size_t>& parts) {
  std::vector<bool> covered(table.l2->partitions());
  for (const size_t part : parts) covered[part] = true;
  try {
    table.served->set_fallback(std::make_shared<FileRows>(
        table.source.folder, table.served->dim(),
        [covered, l2 = table.l2](int64_t key) { return covered[l2->partition_of(key)]; }));
  } catch (const Error& error) {
    log_error(cat("table ", table.name, " cannot be served from its files: ", error.what()));
  }
}

}  // namespace emblem
