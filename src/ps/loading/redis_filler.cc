#include "ps/loading/redis_filler.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "core/math/checksum.h"
#include "core/system/log.h"
#include "core/threads/thread_pool.h"
#include "ps/config/sparse_folder.h"
#include "ps/tables/database_notes.h"
#include "ps/tables/filtered_rows.h"
#include "ps/tables/finite_rows.h"
#include "store/table_note.h"

namespace emblem {
namespace {

constexpr int64_t kCopyRows = 16384;  // from L3 at a time

void insert(const RowSource& from, std::span<const int64_t> keys, std::span<const float> rows,
            KvTable& to) {
  if (from.filter.takes_all() && from.only == nullptr) return to.bulk_insert(keys, rows);
  const FilteredRows taken(
      [&](int64_t key) {
        return from.filter.takes(key) && (from.only == nullptr || from.only(key));
      },
      keys, rows);
  if (!taken.keys.empty()) to.bulk_insert(taken.keys, taken.rows);
}

constexpr std::chrono::milliseconds kLookInterval{100};  // while another server fills

// Different for every filling by any server.
std::string new_generation() {
  std::random_device device;
  return checksum_digits(static_cast<uint64_t>(device()) << 32 | device());
}

std::vector<size_t> all_parts(const KvTable& table) {
  std::vector<size_t> parts(table.partitions());
  std::iota(parts.begin(), parts.end(), size_t{0});
  return parts;
}

std::optional<TableNote> note_of(const KvStore& redis, const std::string& table) {
  return TableNote::parse(redis.note(content_note(table)));
}

}  // namespace

uint64_t copy_rows(const RowSource& from, KvTable& to, const std::function<void()>& before_batch) {
  uint64_t refused = 0;
  int64_t first_refused = 0;
  const auto take = [&](std::span<const int64_t> keys, std::span<const float> rows) {
    const auto dim = static_cast<size_t>(to.dim());
    for (size_t at = 0; at < keys.size(); at += kCopyRows) {
      const size_t count = std::min<size_t>(kCopyRows, keys.size() - at);
      before_batch();
      const FiniteRows finite(keys.subspan(at, count), rows.subspan(at * dim, count * dim));
      if (finite.refused() > 0 && refused == 0) first_refused = finite.first_refused();
      refused += finite.refused();
      insert(from, finite.keys(), finite.rows(), to);
    }
  };
  if (from.l3 != nullptr) {
    from.l3->iterate(kCopyRows, take);
  } else {
    SparseFolder(from.folder, to.dim()).read(take);
  }
  to.finish_bulk();
  if (refused > 0)
    log_error(cat("table ", to.name(), ": ", refused, " rows of ", from.describe(),
                  " are NaN or infinite, first that of key ", first_refused,
                  "; they are not served and read as the default row"));
  return refused;
}

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
  // Tables that were filled by others than Emblem, or before it kept this.
  if (!tables.empty() && !delta_sequence(redis_, model))
    begin(model, tables.front().source, updates_included);
}

RedisFiller::Filled RedisFiller::try_fill(const std::string& model, std::span<const Table> tables,
                                          int64_t updates_included) {
  const auto list_missing = [&] {
    std::vector<const Table*> missing;
    for (const Table& table : tables) {
      const auto note = note_of(redis_, table.name);
      if (!note || note->content != table.content) missing.push_back(&table);
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
  set_delta_sequence(redis_, model, sequence_of(model, source, updates_included));
}

// The same where other rows stay: they do not have the deltas that the new ones have.
void RedisFiller::begin_again(const std::string& model, const RowSource& source,
                              int64_t updates_included) {
  const int64_t sequence = sequence_of(model, source, updates_included);
  set_delta_sequence(redis_, model,
                     std::min(sequence, delta_sequence(redis_, model).value_or(sequence)));
}

int64_t RedisFiller::sequence_of(const std::string& model, const RowSource& source,
                                 int64_t updates_included) const {
  if (source.l3 == nullptr) return updates_included;
  return delta_sequence(*databases_.rocksdb, model).value_or(updates_included);
}

// All of it. Where another version has all its rows there, they can be read meanwhile.
void RedisFiller::fill_table(const Table& table, TableLock& lock) {
  const std::string name = content_note(table.name);
  const auto before = note_of(redis_, table.name);
  const bool whole = before && before->content != kRefilling;
  const std::string generation =
      whole && !before->generation.empty() ? before->generation : new_generation();
  const auto set_note = [&](const std::string& content, const std::string& of_generation) {
    lock.keep();
    redis_.set_note(name, TableNote{content, of_generation}.text());
  };
  if (whole) {
    set_note(kIncomplete, before->generation);
    table.served->count_refused(copy_rows(table.source, *table.l2, [&] { lock.keep(); }));
    if (before->generation.empty()) table.l2->adopt(generation);
  } else {
    set_note(kRefilling, generation);
    fill_parts(table, all_parts(*table.l2), generation, lock);
  }
  set_note(table.content, generation);
}

void RedisFiller::fill_parts(const Table& table, std::span<const size_t> parts,
                             const std::string& generation, TableLock& lock) {
  lock.keep();
  table.l2->start_filling(parts, generation);
  std::vector<bool> wanted(table.l2->partitions());
  for (const size_t part : parts) wanted[part] = true;
  RowSource source = table.source;
  if (parts.size() < wanted.size())
    source.only = [&](int64_t key) { return wanted[table.l2->partition_of(key)]; };
  table.served->count_refused(copy_rows(source, *table.l2, [&] { lock.keep(); }));
  lock.keep();
  table.l2->finish_filling(parts, generation);
}

// ---- after a loss ----

RedisFiller::Lost RedisFiller::find_lost(const Table& table) const {
  const auto note = note_of(redis_, table.name);
  if (!note || note->content == kRefilling)
    return {.parts = all_parts(*table.l2), .is_unfinished = true};
  const bool is_unfinished = note->content == kIncomplete;
  if (note->generation.empty())
    return {.parts = {}, .is_unfinished = is_unfinished, .has_no_marks = !is_unfinished};
  return {.parts = table.l2->lost_parts(note->generation),
          .generation = note->generation,
          .is_unfinished = is_unfinished};
}

bool RedisFiller::refill(const std::string& model, const Table& table, int64_t updates_included) {
  std::lock_guard changing(databases_.changing);
  const auto lock = TableLock::try_take(redis_, model);
  if (lock == nullptr) return false;
  const Lost lost = find_lost(table);  // another server may have filled it just before
  if (lost.has_no_marks) adopt(table, *lock);
  if (lost.nothing() || lost.has_no_marks) return true;
  const std::vector<size_t> parts = lost.is_unfinished ? all_parts(*table.l2) : lost.parts;
  log_warn(cat(redis_.describe(), ": filling ", parts.size(), " of ", table.l2->partitions(),
               " partitions of ", table.name, " from ", table.source.describe()));
  begin_again(model, table.source, updates_included);
  table.served->refill_l2([&](KvTable&) {
    if (lost.is_unfinished)
      fill_table(table, *lock);
    else
      fill_parts(table, parts, lost.generation, *lock);
  });
  table.served->count_refilled(parts.size());
  return true;
}

// Rows that were lost before cannot be known.
void RedisFiller::adopt(const Table& table, TableLock& lock) {
  const std::string name = content_note(table.name);
  const auto note = note_of(redis_, table.name);
  const std::string generation = new_generation();
  lock.keep();
  table.l2->adopt(generation);
  lock.keep();
  redis_.set_note(name, TableNote{note->content, generation}.text());
}

}  // namespace emblem
