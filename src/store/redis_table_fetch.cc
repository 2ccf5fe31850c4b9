// Lookups of a table in Redis: one round trip, and a second one where keys are missing or uses of
// rows are kept.
#include "store/redis_table.h"

#ifdef EMBLEM_WITH_REDIS

#include <algorithm>
#include <chrono>

#include "core/log.h"

namespace emblem {
namespace {

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// What a table's part of a fetch needs until the replies are there.
struct RedisTable::Fetching {
  explicit Fetching(KvFetch& its_fetch)
      : fetch(its_fetch), table(static_cast<const RedisTable&>(*its_fetch.table)) {}
  KvFetch& fetch;
  const RedisTable& table;
  Parts parts;
  std::vector<int64_t> uses;
  std::optional<std::string> note_text{};
  TableNote note{};
  std::vector<std::string> generations{};  // by partition, of those that were asked
  std::vector<uint32_t> damaged{};         // keys
  std::unique_ptr<bool[]> whole{};  // by partition
};

int64_t RedisTable::fetch(std::span<const int64_t> keys, std::span<float> rows,
                          std::span<uint8_t> found) const {
  KvFetch fetch{.table = this, .keys = keys, .rows = rows, .found = found};
  KvFetch* const only = &fetch;
  fetch_together({&only, 1});
  if (fetch.error) throw *fetch.error;
  if (!fetch.unknown.empty())
    throw Error(ErrorCode::kUnavailable,
                cat("redis has lost or damaged the rows of ", fetch.unknown.size(), " of ",
                    keys.size(), " keys of table ", name()));
  return fetch.hits;
}

void RedisTable::fetch_together(std::span<KvFetch* const> fetches) const {
  std::vector<Fetching> all;
  for (KvFetch* fetch : fetches) {
    const Fetching& one = all.emplace_back(*fetch);
    one.table.check_sizes(fetch->keys, fetch->rows.size(), fetch->found.size());
  }
  std::vector<RedisTask> tasks, checks, marks;
  for (Fetching& one : all) one.table.ask(one, tasks);
  try {
    cluster_->run(tasks);
    for (Fetching& one : all) one.table.find_lost(one, checks);
    cluster_->run(checks);
  } catch (const Error& error) {
    for (KvFetch* fetch : fetches) fetch->error = error;
    return;
  }
  for (Fetching& one : all) {
    one.table.note_unknown(one);
    one.table.note_uses(one, marks);
  }
  try {
    cluster_->run(marks);
  } catch (const Error& error) {  // the rows are there all the same
    log_debug(cat("redis: uses of rows cannot be noted: ", error.what()));
  }
}

void RedisTable::ask(Fetching& fetching, std::vector<RedisTask>& tasks) const {
  KvFetch& fetch = fetching.fetch;
  fetching.parts = by_part(fetch.keys);
  fetching.generations.resize(parts_.size());
  fetching.uses.resize(uses_.are_kept() ? fetch.keys.size() : 0);
  const bool is_marked = !required_note_.empty();
  if (is_marked) tasks.push_back(read_note(fetching));
  const auto most = static_cast<size_t>(settings_.max_batch);
  each_batch(fetching.parts, most, [&](size_t part, std::span<const uint32_t> numbers) {
    const size_t first = is_marked ? 1 : 0;
    RedisTask& task = tasks.emplace_back(parts_.hash(part).get(
        numbers.size() + first, [=, this, &fetching](size_t at, const RedisItem& item) {
          if (at < first)
            fetching.generations[part] = item.text;
          else
            take_row(fetching, numbers[at - first], item);
        }));
    if (is_marked) append_word(task.command, kGenerationMark);
    for (const uint32_t i : numbers) append_word(task.command, encoding_.bytes(fetch.keys[i]));
    uses_.read(part, fetch.keys, numbers, fetching.uses, tasks);
  });
}

void RedisTable::take_row(Fetching& fetching, uint32_t i, const RedisItem& item) const {
  KvFetch& fetch = fetching.fetch;
  fetch.found[i] = item.kind == RedisItem::Kind::kText && encoding_.fits(fetch.keys[i]);
  if (fetch.found[i] == 0) return;
  float* row = fetch.rows.data() + i * static_cast<size_t>(dim());
  const std::string problem = row_.decode(fetch.keys[i], item.text, row);
  if (problem.empty()) return;
  fetch.found[i] = 0;
  fetching.damaged.push_back(i);
  log_damage(fetch.keys[i], problem);
}

// The first, and then fewer and fewer.
void RedisTable::log_damage(int64_t key, const std::string& problem) const {
  const uint64_t count = damaged_.fetch_add(1, std::memory_order_relaxed) + 1;
  if ((count & (count - 1)) != 0) return;
  log_error(cat("redis, table ", name(), ": the row of key ", key, " ", problem, "; ", count,
                count == 1 ? " damaged row was" : " damaged rows were", " found so far"));
}

void RedisTable::require_note(const std::string& note, const std::string& refused) {
  required_note_ = redis_note_key(note);
  refused_note_ = refused;
}

RedisTask RedisTable::read_note(Fetching& fetching) const {
  return {redis_slot(required_note_), redis_command({"GET", required_note_}),
          [&fetching](const RedisItem& item, RedisConnection&, Deadline) {
            fetching.note_text.reset();
            if (item.kind == RedisItem::Kind::kText) fetching.note_text = item.text;
          }};
}

// ---- what is lost ----

void RedisTable::find_lost(Fetching& fetching, std::vector<RedisTask>& checks) const {
  if (required_note_.empty()) return;
  KvFetch& fetch = fetching.fetch;
  if (fetching.note_text) fetching.note = TableNote::parse(std::string_view(*fetching.note_text));
  if (!fetching.note_text || fetching.note.content == refused_note_) {
    fetch.error = Error(ErrorCode::kUnavailable,
                        cat("redis has lost rows of table ", name(),
                            ", or is still being filled with them"));
    return;
  }
  const std::string& generation = fetching.note.generation;
  if (generation.empty()) return;
  fetching.whole = std::make_unique<bool[]>(parts_.size());
  const int64_t now = now_ms();
  for (size_t part = 0; part < parts_.size(); ++part) {
    fetching.whole[part] = fetching.generations[part] == generation;
    const std::vector<uint32_t>& keys = fetching.parts[part];
    if (keys.empty() || !fetching.whole[part]) continue;
    const auto misses = std::count_if(keys.begin(), keys.end(),
                                      [&](uint32_t i) { return fetch.found[i] == 0; });
    if (misses_[part].note(keys.size(), static_cast<uint64_t>(misses), now,
                           settings_.check_interval_ms))
      checks.push_back(parts_.check(part, generation, &fetching.whole[part]));
  }
}

void RedisTable::note_unknown(Fetching& fetching) const {
  KvFetch& fetch = fetching.fetch;
  fetch.unknown = fetching.damaged;
  for (size_t part = 0; fetching.whole != nullptr && part < parts_.size(); ++part) {
    if (fetching.whole[part]) continue;
    for (const uint32_t i : fetching.parts[part]) {
      fetch.found[i] = 0;
      fetch.unknown.push_back(i);
    }
  }
  std::sort(fetch.unknown.begin(), fetch.unknown.end());
  fetch.unknown.erase(std::unique(fetch.unknown.begin(), fetch.unknown.end()),
                      fetch.unknown.end());
  fetch.hits = std::count(fetch.found.begin(), fetch.found.end(), uint8_t{1});
}

// Rows that were found were used; partitions with damaged rows are to be filled again.
void RedisTable::note_uses(Fetching& fetching, std::vector<RedisTask>& marks) const {
  KvFetch& fetch = fetching.fetch;
  if (!fetching.note.generation.empty()) {
    for (const uint32_t i : fetching.damaged)
      marks.push_back(
          parts_.note_damage(partition_of(fetch.keys[i]), fetching.note.generation));
  }
  for (std::vector<uint32_t>& part : fetching.parts)
    std::erase_if(part, [&](uint32_t i) { return fetch.found[i] == 0; });
  const auto most = static_cast<size_t>(settings_.max_batch);
  each_batch(fetching.parts, most, [&](size_t part, std::span<const uint32_t> numbers) {
    uses_.write(part, fetch.keys, numbers, fetching.uses, marks);
  });
}

}  // namespace emblem

#endif
