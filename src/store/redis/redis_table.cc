#include "store/redis/redis_table.h"

#ifdef EMBLEM_WITH_REDIS

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/math/random.h"
#include "core/system/log.h"

namespace emblem {
namespace {

int64_t parse_count(std::string_view text) {
  int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

constexpr int64_t kScanFields = 1000;

std::vector<RedisHash> hashes(const std::string& table, int64_t partitions, const char* kind) {
  std::vector<RedisHash> hashes;
  for (int64_t part = 0; part < partitions; ++part)
    hashes.emplace_back(cat("hps_et{", table, "/p", part, "}", kind));
  return hashes;
}

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RedisUses::RedisUses(std::vector<RedisHash> hashes, const RedisSettings& settings)
    : hashes_(std::move(hashes)),
      settings_(settings),
      encoding_{settings.key_bytes},
      policy_(settings.overflow.policy),
      kept_(settings.overflow.limited() && policy_ != OverflowPolicy::kEvictRandom) {}

void RedisUses::read(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
                     std::span<int64_t> counts, std::vector<RedisTask>& tasks) const {
  if (!kept_ || policy_ != OverflowPolicy::kEvictLeastUsed) return;
  RedisTask& task = tasks.emplace_back(
      hashes_[part].get(numbers.size(), [numbers, counts](size_t i, const RedisItem& item) {
        counts[numbers[i]] = item.kind == RedisItem::Kind::kText ? parse_count(item.text) : 0;
      }));
  for (const uint32_t i : numbers) append_word(task.command, encoding_.bytes(keys[i]));
}

void RedisUses::write(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
                      std::span<const int64_t> counts, std::vector<RedisTask>& tasks) const {
  if (!kept_ || numbers.empty()) return;
  const int64_t now = settings_.unix_seconds();
  RedisTask& task = tasks.emplace_back(hashes_[part].begin("HSET", 2 * numbers.size()));
  for (const uint32_t i : numbers) {
    append_word(task.command, encoding_.bytes(keys[i]));
    if (policy_ == OverflowPolicy::kEvictOldest) {
      append_word(task.command, {reinterpret_cast<const char*>(&now), sizeof(now)});
    } else {
      append_word(task.command, std::to_string(counts[i] + 1));
    }
  }
}

int64_t RedisUses::rank(std::string_view use) const {
  if (policy_ != OverflowPolicy::kEvictOldest) return parse_count(use);
  int64_t seconds = 0;
  std::memcpy(&seconds, use.data(), std::min(use.size(), sizeof(seconds)));
  return seconds;
}

std::string redis_note_key(const std::string& name) { return cat("emblem_note{", name, "}"); }

RedisTable::RedisTable(std::string name, int64_t dim, std::shared_ptr<RedisCluster> cluster)
    : PartitionedTable(std::move(name), dim),
      cluster_(std::move(cluster)),
      settings_(cluster_->settings()),
      encoding_{settings_.key_bytes},
      row_(dim,
           settings_.row_checksums ? RedisRow::Checksums::kWritten : RedisRow::Checksums::kNone),
      parts_(hashes(this->name(), settings_.partitions, "v"), cluster_),
      uses_(hashes(this->name(), settings_.partitions, "t"), settings_),
      misses_(parts_.size()),
      added_(parts_.size()) {
  check_some_row();
}

std::vector<std::string> RedisTable::hashes_of(const std::string& table, int64_t partitions) {
  std::vector<std::string> keys;
  for (const char* kind : {"v", "t"}) {
    for (const RedisHash& hash : hashes(table, partitions, kind)) keys.push_back(hash.key);
  }
  return keys;
}

int64_t RedisTable::key_of(std::string_view field) const {
  if (field.size() != encoding_.width) {
    throw Error(ErrorCode::kCorruption,
                cat("redis, table ", name(), ": keys of ", field.size(), " bytes, but ",
                    encoding_.width, " were expected: change \"supportlonglong\" or the table"));
  }
  return encoding_.key(field.data());
}

// A table whose rows are all of another size has another dimension. One damaged row is left to
// lookups.
void RedisTable::check_some_row() const {
  for (size_t part = 0; part < parts_.size(); ++part) {
    int64_t rows = 0, of_size = 0, key = 0;
    size_t bytes = 0;
    parts_.hash(part).scan(*cluster_, "0", 1, [&](std::string_view field, std::string_view value) {
      if (is_redis_mark(field)) return;
      key = key_of(field);
      bytes = value.size();
      ++rows;
      of_size += row_.has_size(value) ? 1 : 0;
    });
    if (rows == 0) continue;
    if (of_size > 0) return;
    throw Error(ErrorCode::kCorruption,
                cat("redis, table ", name(), ": the row of key ", key, " has ", bytes,
                    " bytes, but dimension ", dim(), " needs ", dim() * 4,
                    ": the table is of another model; remove it, or give the model another name"));
  }
}

void RedisTable::iterate(int64_t batch_rows, const Take& take) const {
  const auto width = static_cast<size_t>(dim());
  for (size_t part = 0; part < parts_.size(); ++part) {
    std::vector<int64_t> keys;
    std::vector<float> rows;
    const auto add = [&](std::string_view field, std::string_view value) {
      if (is_redis_mark(field)) return;
      const int64_t key = key_of(field);
      rows.resize((keys.size() + 1) * width);
      const std::string problem = row_.decode(key, value, rows.data() + keys.size() * width);
      if (!problem.empty()) {
        rows.resize(keys.size() * width);
        return log_damage(key, problem);
      }
      keys.push_back(key);
      if (static_cast<int64_t>(keys.size()) < batch_rows) return;
      take(keys, rows);
      keys.clear();
      rows.clear();
    };
    parts_.hash(part).scan_all(*cluster_, batch_rows, add);
    if (!keys.empty()) take(keys, rows);
  }
}

// ---- changes ----

void RedisTable::insert(std::span<const int64_t> keys, std::span<const float> rows) {
  insert(keys, rows, Existing::kReplace);
}

void RedisTable::insert_missing(std::span<const int64_t> keys, std::span<const float> rows) {
  insert(keys, rows, Existing::kKeep);
}

void RedisTable::insert(std::span<const int64_t> keys, std::span<const float> rows,
                        Existing existing) {
  check_sizes(keys, rows.size());
  for (const int64_t key : keys) encoding_.require(name(), key);
  const Parts parts = by_part(keys);
  const size_t most =
      std::min(static_cast<size_t>(settings_.max_batch), RedisParts::kMostWords / 2);
  std::vector<RedisTask> tasks;
  std::vector<int64_t> sizes(parts_.size()), uses(uses_.are_kept() ? keys.size() : 0);
  std::string scratch;
  each_batch(parts, most, [&](size_t part, std::span<const uint32_t> numbers) {
    RedisTask& task =
        tasks.emplace_back(existing == Existing::kReplace
                               ? parts_.insert(part, 2 * numbers.size(), &sizes[part])
                               : parts_.insert_missing(part, 2 * numbers.size(), &sizes[part]));
    for (const uint32_t i : numbers) {
      append_word(task.command, encoding_.bytes(keys[i]));
      append_word(task.command, row_.encode(keys[i], &rows[i * dim()], scratch));
    }
    if (settings_.overflow.limited()) uses_.read(part, keys, numbers, uses, tasks);
  });
  cluster_->run(tasks);
  std::vector<RedisTask> marks;
  each_batch(parts, most, [&](size_t part, std::span<const uint32_t> numbers) {
    uses_.write(part, keys, numbers, uses, marks);
  });
  cluster_->run(marks);
  if (!settings_.overflow.limited()) return;
  for (size_t part = 0; part < sizes.size(); ++part) {
    if (static_cast<uint64_t>(sizes[part]) > settings_.overflow.margin) evict(part);
  }
}

// HSET itself costs a third of a script. What it added is counted at the end of the filling.
void RedisTable::bulk_insert(std::span<const int64_t> keys, std::span<const float> rows) {
  if (!is_filling_ || settings_.overflow.limited()) return insert(keys, rows);
  check_sizes(keys, rows.size());
  for (const int64_t key : keys) encoding_.require(name(), key);
  std::vector<RedisTask> tasks;
  std::vector<int64_t> added;
  const Parts parts = by_part(keys);
  const auto most = static_cast<size_t>(settings_.max_batch);
  each_batch(parts, most, [&](size_t, std::span<const uint32_t>) { added.push_back(0); });
  size_t batch = 0;
  std::string scratch;
  std::vector<size_t> part_of_batch;
  each_batch(parts, most, [&](size_t part, std::span<const uint32_t> numbers) {
    RedisTask& task = tasks.emplace_back(parts_.hash(part).begin("HSET", 2 * numbers.size()));
    for (const uint32_t i : numbers) {
      append_word(task.command, encoding_.bytes(keys[i]));
      append_word(task.command, row_.encode(keys[i], &rows[i * dim()], scratch));
    }
    task.take = [count = &added[batch++]](const RedisItem& item, RedisConnection&, Deadline) {
      *count = item.number;
    };
    part_of_batch.push_back(part);
  });
  cluster_->run(tasks);
  for (size_t i = 0; i < added.size(); ++i) added_[part_of_batch[i]] += added[i];
}

void RedisTable::erase(std::span<const int64_t> keys) {
  const Parts parts = by_part(keys);
  std::vector<RedisTask> tasks;
  each_batch(parts, RedisParts::kMostWords, [&](size_t part, std::span<const uint32_t> numbers) {
    tasks.push_back(parts_.erase(part, numbers.size()));
    for (const uint32_t i : numbers) append_word(tasks.back().command, encoding_.bytes(keys[i]));
    tasks.push_back(uses_.hash(part).begin("HDEL", numbers.size()));
    for (const uint32_t i : numbers) append_word(tasks.back().command, encoding_.bytes(keys[i]));
  });
  cluster_->run(tasks);
}

void RedisTable::clear() {
  std::vector<RedisTask> tasks;
  for (size_t part = 0; part < parts_.size(); ++part) {
    for (const RedisHash* hash : {&parts_.hash(part), &uses_.hash(part)})
      tasks.push_back(hash->begin("DEL", 0));
  }
  cluster_->run(tasks);
}

void RedisTable::evict(size_t part) {
  std::vector<std::pair<int64_t, int64_t>> ranked;  // (rank, key); the smallest leave first
  Random random{.seed = static_cast<uint64_t>(std::time(nullptr)), .stream = part};
  const RedisHash& hash = uses_.are_kept() ? uses_.hash(part) : parts_.hash(part);
  hash.scan_all(*cluster_, kScanFields, [&](std::string_view field, std::string_view value) {
    if (is_redis_mark(field)) return;
    const int64_t rank = uses_.are_kept() ? uses_.rank(value) : static_cast<int64_t>(random.bits());
    ranked.emplace_back(rank, key_of(field));
  });
  const auto keep = static_cast<size_t>(static_cast<double>(settings_.overflow.margin) *
                                        settings_.overflow.target);
  if (ranked.size() <= keep) return;
  std::sort(ranked.begin(), ranked.end());
  std::vector<int64_t> keys;
  for (size_t i = 0; i + keep < ranked.size(); ++i) keys.push_back(ranked[i].second);
  erase(keys);
  evicted_.fetch_add(keys.size(), std::memory_order_relaxed);
}

// ---- filling ----

void RedisTable::start_filling(std::span<const size_t> parts, const std::string& generation) {
  parts_.start(parts, generation);
  for (const size_t part : parts) remove_damaged(part);
  std::fill(added_.begin(), added_.end(), 0);
  is_filling_ = true;
}

void RedisTable::finish_filling(std::span<const size_t> parts, const std::string& generation) {
  is_filling_ = false;
  parts_.finish(parts, generation, added_);
}

void RedisTable::remove_damaged(size_t part) {
  std::vector<int64_t> keys;
  std::vector<float> row(static_cast<size_t>(dim()));
  parts_.hash(part).scan_all(*cluster_, kScanFields,
                             [&](std::string_view field, std::string_view value) {
                               if (field.size() != encoding_.width) return;  // a mark, or not ours
                               const int64_t key = encoding_.key(field.data());
                               if (!row_.decode(key, value, row.data()).empty())
                                 keys.push_back(key);
                             });
  if (!keys.empty()) erase(keys);
}

// ---- partitions ----

RedisTable::Parts RedisTable::by_part(std::span<const int64_t> keys) const {
  Parts parts(parts_.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    parts[partition_of(keys[i])].push_back(static_cast<uint32_t>(i));
  }
  return parts;
}

size_t RedisTable::partition_of(int64_t key) const {
  return hps_partition_hash(key) % parts_.size();
}

// ---- lookups: one round trip, and a second one where keys are missing or uses of rows are kept
// ----

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
  std::unique_ptr<bool[]> whole{};         // by partition
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
    if (is_marked)
      task.has_wrong_type = [=, &fetching] {  // a lost partition, without a generation
        for (const uint32_t i : numbers) fetching.fetch.found[i] = 0;
      };
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
          },
          [] {}};
}

// ---- what is lost ----

void RedisTable::find_lost(Fetching& fetching, std::vector<RedisTask>& checks) const {
  if (required_note_.empty()) return;
  KvFetch& fetch = fetching.fetch;
  if (fetching.note_text) fetching.note = TableNote::parse(std::string_view(*fetching.note_text));
  if (!fetching.note_text || fetching.note.content == refused_note_) {
    fetch.error = Error(ErrorCode::kUnavailable, cat("redis has lost rows of table ", name(),
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
    const auto misses =
        std::count_if(keys.begin(), keys.end(), [&](uint32_t i) { return fetch.found[i] == 0; });
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
  fetch.unknown.erase(std::unique(fetch.unknown.begin(), fetch.unknown.end()), fetch.unknown.end());
  fetch.hits = std::count(fetch.found.begin(), fetch.found.end(), uint8_t{1});
}

// Rows that were found were used; partitions with damaged rows are to be filled again.
void RedisTable::note_uses(Fetching& fetching, std::vector<RedisTask>& marks) const {
  KvFetch& fetch = fetching.fetch;
  if (!fetching.note.generation.empty()) {
    for (const uint32_t i : fetching.damaged)
      marks.push_back(parts_.note_damage(partition_of(fetch.keys[i]), fetching.note.generation));
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
