#include "store/redis_table.h"

#ifdef EMBLEM_WITH_REDIS

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "core/log.h"
#include "core/random.h"

namespace emblem {
namespace {

constexpr int64_t kScanFields = 1000;

std::vector<RedisHash> hashes(const std::string& table, int64_t partitions, const char* kind) {
  std::vector<RedisHash> hashes;
  for (int64_t part = 0; part < partitions; ++part)
    hashes.emplace_back(cat("hps_et{", table, "/p", part, "}", kind));
  return hashes;
}

}  // namespace

std::string redis_note_key(const std::string& name) { return cat("emblem_note{", name, "}"); }

RedisTable::RedisTable(std::string name, int64_t dim, std::shared_ptr<RedisCluster> cluster)
    : PartitionedTable(std::move(name), dim),
      cluster_(std::move(cluster)),
      settings_(cluster_->settings()),
      encoding_{settings_.key_bytes},
      row_(dim, settings_.row_checksums ? RedisRow::Checksums::kWritten
                                        : RedisRow::Checksums::kNone),
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
    RedisTask& task = tasks.emplace_back(
        existing == Existing::kReplace
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
    for (const uint32_t i : numbers)
      append_word(tasks.back().command, encoding_.bytes(keys[i]));
    tasks.push_back(uses_.hash(part).begin("HDEL", numbers.size()));
    for (const uint32_t i : numbers)
      append_word(tasks.back().command, encoding_.bytes(keys[i]));
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
  parts_.hash(part).scan_all(
      *cluster_, kScanFields, [&](std::string_view field, std::string_view value) {
        if (field.size() != encoding_.width) return;  // a mark, or not ours
        const int64_t key = encoding_.key(field.data());
        if (!row_.decode(key, value, row.data()).empty()) keys.push_back(key);
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

}  // namespace emblem

#endif
