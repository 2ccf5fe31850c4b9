#include "store/redis_table.h"

#ifdef EMBLEM_WITH_REDIS

#include <algorithm>
#include <cstring>
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
    : KvTable(std::move(name), dim),
      cluster_(std::move(cluster)),
      settings_(cluster_->settings()),
      encoding_{settings_.key_bytes},
      row_bytes_(static_cast<size_t>(dim) * sizeof(float)),
      values_(hashes(this->name(), settings_.partitions, "v")),
      uses_(hashes(this->name(), settings_.partitions, "t"), settings_) {
  check_some_row();
}

std::vector<std::string> RedisTable::hashes_of(const std::string& table, int64_t partitions) {
  std::vector<std::string> keys;
  for (const char* kind : {"v", "t"}) {
    for (const RedisHash& hash : hashes(table, partitions, kind)) keys.push_back(hash.key);
  }
  return keys;
}

// ---- reading ----

// What a table's part of a fetch needs until the replies are there.
struct RedisTable::Fetching {
  explicit Fetching(KvFetch& its_fetch)
      : fetch(its_fetch), table(static_cast<const RedisTable&>(*its_fetch.table)) {}
  KvFetch& fetch;
  const RedisTable& table;
  Parts parts;
  std::vector<int64_t> uses;
  bool whole = true;  // all rows of the table are in Redis
};

int64_t RedisTable::fetch(std::span<const int64_t> keys, std::span<float> rows,
                          std::span<uint8_t> found) const {
  KvFetch fetch{.table = this, .keys = keys, .rows = rows, .found = found};
  KvFetch* const only = &fetch;
  fetch_together({&only, 1});
  if (fetch.error) throw *fetch.error;
  return fetch.hits;
}

void RedisTable::fetch_together(std::span<KvFetch* const> fetches) const {
  std::vector<Fetching> all;
  for (KvFetch* fetch : fetches) {
    const Fetching& one = all.emplace_back(*fetch);
    one.table.check_sizes(fetch->keys, fetch->rows.size(), fetch->found.size());
  }
  std::vector<RedisTask> tasks;
  for (Fetching& one : all) one.table.ask(one, tasks);
  try {
    cluster_->run(tasks);
  } catch (const Error& error) {
    for (KvFetch* fetch : fetches) fetch->error = error;
    return;
  }
  std::vector<RedisTask> marks;
  for (Fetching& one : all) {
    KvFetch& fetch = one.fetch;
    fetch.hits = std::count(fetch.found.begin(), fetch.found.end(), uint8_t{1});
    if (!one.whole) {
      fetch.error =
          Error(ErrorCode::kUnavailable, cat("redis has lost rows of table ", one.table.name(),
                                             ", or is still being filled with them"));
    }
    for (std::vector<uint32_t>& part : one.parts)  // those that were found were used
      std::erase_if(part, [&](uint32_t i) { return fetch.found[i] == 0; });
    one.table.each_batch(one.parts, [&](size_t part, std::span<const uint32_t> numbers) {
      one.table.uses_.write(part, fetch.keys, numbers, one.uses, marks);
    });
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
  fetching.uses.resize(uses_.are_kept() ? fetch.keys.size() : 0);
  if (!required_note_.empty()) tasks.push_back(look_for_note(fetching.whole));
  each_batch(fetching.parts, [&](size_t part, std::span<const uint32_t> numbers) {
    RedisTask& task = tasks.emplace_back(
        values_[part].get(numbers.size(), [=, this, &fetch](size_t at, const RedisItem& item) {
          const uint32_t i = numbers[at];
          fetch.found[i] = item.kind == RedisItem::Kind::kText && encoding_.fits(fetch.keys[i]);
          if (fetch.found[i] == 0) return;
          check_row(fetch.keys[i], item.text);
          std::memcpy(fetch.rows.data() + i * static_cast<size_t>(dim()), item.text.data(),
                      row_bytes_);
        }));
    for (const uint32_t i : numbers) append_word(task.command, encoding_.bytes(fetch.keys[i]));
    uses_.read(part, fetch.keys, numbers, fetching.uses, tasks);
  });
}

void RedisTable::require_note(const std::string& note, const std::string& refused) {
  required_note_ = redis_note_key(note);
  refused_note_ = refused;
}

// Asked before rows are read: `whole` says whether all were there.
RedisTask RedisTable::look_for_note(bool& whole) const {
  return {redis_slot(required_note_), redis_command({"GET", required_note_}),
          [&whole, this](const RedisItem& item, RedisConnection&, Deadline) {
            whole = item.kind == RedisItem::Kind::kText && item.text != refused_note_;
          }};
}

void RedisTable::check_row(int64_t key, std::string_view row) const {
  if (row.size() == row_bytes_) return;
  throw Error(ErrorCode::kCorruption,
              cat("redis, table ", name(), ": the row of key ", key, " has ", row.size(),
                  " bytes, but dimension ", dim(), " needs ", row_bytes_));
}

int64_t RedisTable::key_of(std::string_view field) const {
  if (field.size() != encoding_.width) {
    throw Error(ErrorCode::kCorruption,
                cat("redis, table ", name(), ": keys of ", field.size(), " bytes, but ",
                    encoding_.width, " were expected: change \"supportlonglong\" or the table"));
  }
  return encoding_.key(field.data());
}

void RedisTable::check_some_row() const {
  for (const RedisHash& hash : values_) {
    bool any = false;
    hash.scan(*cluster_, "0", 1, [&](std::string_view field, std::string_view row) {
      check_row(key_of(field), row);
      any = true;
    });
    if (any) return;
  }
}

int64_t RedisTable::size() const {
  std::vector<int64_t> sizes(values_.size());
  std::vector<RedisTask> tasks;
  for (size_t part = 0; part < values_.size(); ++part) {
    tasks.push_back(values_[part].begin("HLEN", 0));
    tasks.back().take = [&sizes, part](const RedisItem& first, RedisConnection&, Deadline) {
      sizes[part] = first.number;
    };
  }
  cluster_->run(tasks);
  int64_t rows = 0;
  for (const int64_t size : sizes) rows += size;
  return rows;
}

void RedisTable::iterate(int64_t batch_rows, const Take& take) const {
  for (const RedisHash& hash : values_) {
    std::vector<int64_t> keys;
    std::vector<float> rows;
    hash.scan_all(*cluster_, batch_rows, [&](std::string_view field, std::string_view row) {
      check_row(key_of(field), row);
      keys.push_back(key_of(field));
      rows.resize(rows.size() + static_cast<size_t>(dim()));
      std::memcpy(rows.data() + rows.size() - dim(), row.data(), row_bytes_);
      if (static_cast<int64_t>(keys.size()) < batch_rows) return;
      take(keys, rows);
      keys.clear();
      rows.clear();
    });
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

void RedisTable::ask_to_write(size_t part, std::span<const int64_t> keys,
                              std::span<const float> rows, std::span<const uint32_t> numbers,
                              Existing existing, std::vector<RedisTask>& tasks) const {
  const auto append_row = [&](std::string& command, uint32_t i) {
    append_word(command, encoding_.bytes(keys[i]));
    append_word(command, {reinterpret_cast<const char*>(&rows[i * dim()]), row_bytes_});
  };
  if (existing == Existing::kReplace) {
    tasks.push_back(values_[part].begin("HSET", 2 * numbers.size()));
    for (const uint32_t i : numbers) append_row(tasks.back().command, i);
    return;
  }
  for (const uint32_t i : numbers) {
    tasks.push_back(values_[part].begin("HSETNX", 2));
    append_row(tasks.back().command, i);
  }
}

void RedisTable::insert(std::span<const int64_t> keys, std::span<const float> rows,
                        Existing existing) {
  check_sizes(keys, rows.size());
  for (const int64_t key : keys) encoding_.require(name(), key);
  const Parts parts = by_part(keys);
  std::vector<RedisTask> tasks;
  std::vector<int64_t> sizes(values_.size()), uses(uses_.are_kept() ? keys.size() : 0);
  each_batch(parts, [&](size_t part, std::span<const uint32_t> numbers) {
    ask_to_write(part, keys, rows, numbers, existing, tasks);
    if (!settings_.overflow.limited()) return;
    RedisTask& size = tasks.emplace_back(values_[part].begin("HLEN", 0));
    size.take = [&sizes, part](const RedisItem& first, RedisConnection&, Deadline) {
      sizes[part] = first.number;
    };
    uses_.read(part, keys, numbers, uses, tasks);
  });
  cluster_->run(tasks);
  std::vector<RedisTask> marks;
  each_batch(parts, [&](size_t part, std::span<const uint32_t> numbers) {
    uses_.write(part, keys, numbers, uses, marks);
  });
  cluster_->run(marks);
  for (size_t part = 0; part < sizes.size(); ++part) {
    if (static_cast<uint64_t>(sizes[part]) > settings_.overflow.margin) evict(part);
  }
}

void RedisTable::erase(std::span<const int64_t> keys) {
  const Parts parts = by_part(keys);
  std::vector<RedisTask> tasks;
  each_batch(parts, [&](size_t part, std::span<const uint32_t> numbers) {
    for (const RedisHash* hash : {&std::as_const(values_[part]), &uses_.hash(part)}) {
      RedisTask& task = tasks.emplace_back(hash->begin("HDEL", numbers.size()));
      for (const uint32_t i : numbers) append_word(task.command, encoding_.bytes(keys[i]));
    }
  });
  cluster_->run(tasks);
}

void RedisTable::clear() {
  std::vector<RedisTask> tasks;
  for (size_t part = 0; part < values_.size(); ++part) {
    for (const RedisHash* hash : {&std::as_const(values_[part]), &uses_.hash(part)})
      tasks.push_back(hash->begin("DEL", 0));
  }
  cluster_->run(tasks);
}

void RedisTable::evict(size_t part) {
  std::vector<std::pair<int64_t, int64_t>> ranked;  // (rank, key); the smallest leave first
  Random random{.seed = static_cast<uint64_t>(std::time(nullptr)), .stream = part};
  const RedisHash& hash = uses_.are_kept() ? uses_.hash(part) : values_[part];
  hash.scan_all(*cluster_, kScanFields, [&](std::string_view field, std::string_view value) {
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

// ---- partitions ----

RedisTable::Parts RedisTable::by_part(std::span<const int64_t> keys) const {
  Parts parts(values_.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    parts[partition_of(keys[i])].push_back(static_cast<uint32_t>(i));
  }
  return parts;
}

size_t RedisTable::partition_of(int64_t key) const {
  return hps_partition_hash(key) % values_.size();
}

// Calls body(part, numbers) with at most max_batch numbers at a time.
template <class Body>
void RedisTable::each_batch(const Parts& parts, Body&& body) const {
  const auto most = static_cast<size_t>(settings_.max_batch);
  for (size_t part = 0; part < parts.size(); ++part) {
    const std::span<const uint32_t> all = parts[part];
    for (size_t from = 0; from < all.size(); from += most) {
      body(part, all.subspan(from, std::min(most, all.size() - from)));
    }
  }
}

}  // namespace emblem

#endif
