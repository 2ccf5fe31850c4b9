#include <algorithm>
#include <cstring>
#include <ctime>

#include "store/redis_store.h"

#ifdef EMBLEM_WITH_REDIS

#include "core/random.h"
#include "store/key_bytes.h"
#include "store/redis_cluster.h"

namespace emblem {
namespace {

void expect(const RedisItem& item, RedisItem::Kind kind, std::string_view what) {
  if (item.kind == kind) return;
  throw Error(ErrorCode::kCorruption, cat("redis: a reply of another kind than ", what, " has"));
}

std::string note_key(const std::string& name) { return cat("emblem_note{", name, "}"); }

class RedisTable : public KvTable {
 public:
  RedisTable(std::string name, int64_t dim, std::shared_ptr<RedisCluster> cluster)
      : KvTable(std::move(name), dim),
        cluster_(std::move(cluster)),
        settings_(cluster_->settings()),
        encoding_{settings_.key_bytes},
        row_bytes_(static_cast<size_t>(dim) * sizeof(float)),
        marks_use_(settings_.overflow.limited() &&
                   settings_.overflow.policy != OverflowPolicy::kEvictRandom) {
    for (int64_t part = 0; part < settings_.partitions; ++part) {
      const std::string stem = cat("hps_et{", this->name(), "/p", part, "}");
      values_.push_back(stem + "v");
      uses_.push_back(stem + "t");
      slots_.push_back(redis_slot(stem));
    }
    check_some_row();
  }

  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override {
    check_sizes(keys, rows.size(), found.size());
    const Parts parts = by_part(keys);
    std::vector<RedisTask> tasks;
    bool whole = required_note_.empty();
    if (!whole) tasks.push_back(look_for_note(whole));
    each_batch(parts, [&](size_t part, std::span<const uint32_t> numbers) {
      RedisTask& task = tasks.emplace_back(begin(part, "HMGET", values_[part], numbers.size()));
      for (const uint32_t i : numbers) append_word(task.command, encoding_.bytes(keys[i]));
      task.take = [=, this](const RedisItem& first, RedisConnection& rest, Deadline deadline) {
        expect(first, RedisItem::Kind::kArray, "HMGET");
        for (const uint32_t i : numbers) {
          const RedisItem item = rest.next(deadline);
          found[i] = item.kind == RedisItem::Kind::kText && encoding_.fits(keys[i]);
          if (found[i] == 0) continue;
          check_row(keys[i], item.text);
          std::memcpy(rows.data() + i * static_cast<size_t>(dim()), item.text.data(), row_bytes_);
        }
      };
    });
    cluster_->run(tasks);
    if (!whole) {
      throw Error(ErrorCode::kUnavailable,
                  cat("redis has lost rows of table ", name(), ", or is still getting them back"));
    }
    if (marks_use_) mark_uses(parts, keys, found);
    return std::count(found.begin(), found.end(), uint8_t{1});
  }

  void require_note(const std::string& note, const std::string& refused) override {
    required_note_ = note_key(note);
    refused_note_ = refused;
  }

  void insert(std::span<const int64_t> keys, std::span<const float> rows) override {
    check_sizes(keys, rows.size());
    for (const int64_t key : keys) encoding_.require(name(), key);
    const Parts parts = by_part(keys);
    std::vector<RedisTask> tasks;
    std::vector<int64_t> sizes(values_.size());
    each_batch(parts, [&](size_t part, std::span<const uint32_t> numbers) {
      RedisTask& task = tasks.emplace_back(begin(part, "HSET", values_[part], 2 * numbers.size()));
      for (const uint32_t i : numbers) {
        append_word(task.command, encoding_.bytes(keys[i]));
        append_word(task.command, {reinterpret_cast<const char*>(&rows[i * dim()]), row_bytes_});
      }
      if (!settings_.overflow.limited()) return;
      RedisTask& size = tasks.emplace_back(begin(part, "HLEN", values_[part], 0));
      size.take = [&sizes, part](const RedisItem& first, RedisConnection&, Deadline) {
        sizes[part] = first.number;
      };
    });
    cluster_->run(tasks);
    if (marks_use_) mark_uses(parts, keys, {});
    for (size_t part = 0; part < sizes.size(); ++part) {
      if (static_cast<uint64_t>(sizes[part]) > settings_.overflow.margin) evict(part);
    }
  }

  void erase(std::span<const int64_t> keys) override {
    std::vector<RedisTask> tasks;
    each_batch(by_part(keys), [&](size_t part, std::span<const uint32_t> numbers) {
      for (const std::string* hash : {&values_[part], &uses_[part]}) {
        RedisTask& task = tasks.emplace_back(begin(part, "HDEL", *hash, numbers.size()));
        for (const uint32_t i : numbers) append_word(task.command, encoding_.bytes(keys[i]));
      }
    });
    cluster_->run(tasks);
  }

  void clear() override {
    std::vector<RedisTask> tasks;
    for (size_t part = 0; part < values_.size(); ++part) {
      tasks.push_back(begin(part, "DEL", values_[part], 0));
      tasks.push_back(begin(part, "DEL", uses_[part], 0));
    }
    cluster_->run(tasks);
  }

  int64_t size() const override {
    std::vector<int64_t> sizes(values_.size());
    std::vector<RedisTask> tasks;
    for (size_t part = 0; part < values_.size(); ++part) {
      tasks.push_back(begin(part, "HLEN", values_[part], 0));
      tasks.back().take = [&sizes, part](const RedisItem& first, RedisConnection&, Deadline) {
        sizes[part] = first.number;
      };
    }
    cluster_->run(tasks);
    int64_t rows = 0;
    for (const int64_t size : sizes) rows += size;
    return rows;
  }

  void iterate(int64_t batch_rows, const Take& take) const override {
    for (size_t part = 0; part < values_.size(); ++part) {
      std::vector<int64_t> keys;
      std::vector<float> rows;
      scan(part, values_[part], batch_rows, [&](int64_t key, std::string_view row) {
        check_row(key, row);
        keys.push_back(key);
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

 private:
  using Parts = std::vector<std::vector<uint32_t>>;

  Parts by_part(std::span<const int64_t> keys) const {
    Parts parts(values_.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      parts[hps_partition_hash(keys[i]) % parts.size()].push_back(static_cast<uint32_t>(i));
    }
    return parts;
  }

  // Calls body(part, numbers) with at most max_batch numbers at a time.
  template <class Body>
  void each_batch(const Parts& parts, Body&& body) const {
    const auto most = static_cast<size_t>(settings_.max_batch);
    for (size_t part = 0; part < parts.size(); ++part) {
      const std::span<const uint32_t> all = parts[part];
      for (size_t from = 0; from < all.size(); from += most) {
        body(part, all.subspan(from, std::min(most, all.size() - from)));
      }
    }
  }

  // A command on a hash with so many words to come, whose reply is one item that nobody needs.
  RedisTask begin(size_t part, std::string_view command, const std::string& hash,
                  size_t words) const {
    RedisTask task{.slot = slots_[part],
                   .take = [](const RedisItem&, RedisConnection&, Deadline) {}};
    append_command_size(task.command, 2 + words);
    append_word(task.command, command);
    append_word(task.command, hash);
    return task;
  }

  // Before rows are read: `whole` says whether all were there.
  RedisTask look_for_note(bool& whole) const {
    return {redis_slot(required_note_), redis_command({"GET", required_note_}),
            [&whole, this](const RedisItem& item, RedisConnection&, Deadline) {
              whole = item.kind == RedisItem::Kind::kText && item.text != refused_note_;
            }};
  }

  void check_row(int64_t key, std::string_view row) const {
    if (row.size() == row_bytes_) return;
    throw Error(ErrorCode::kCorruption,
                cat("redis, table ", name(), ": the row of key ", key, " has ", row.size(),
                    " bytes, but dimension ", dim(), " needs ", row_bytes_));
  }

  void check_some_row() const {
    for (size_t part = 0; part < values_.size(); ++part) {
      bool any = false;
      scan_once(part, values_[part], "0", 1, [&](int64_t key, std::string_view row) {
        check_row(key, row);
        any = true;
      });
      if (any) return;
    }
  }

  using TakeField = std::function<void(int64_t key, std::string_view value)>;

  std::string scan_once(size_t part, const std::string& hash, const std::string& cursor,
                        int64_t count, const TakeField& take) const {
    RedisReply page;
    std::vector<RedisTask> tasks;
    RedisTask& task = tasks.emplace_back(begin(part, "HSCAN", hash, 3));
    append_word(task.command, cursor);
    append_word(task.command, "COUNT");
    append_word(task.command, std::to_string(count));
    task.take = [&](const RedisItem& first, RedisConnection& rest, Deadline deadline) {
      expect(first, RedisItem::Kind::kArray, "HSCAN");
      page = {};
      for (int64_t i = 0; i < first.number; ++i) page.items.push_back(rest.reply(deadline));
    };
    cluster_->run(tasks);
    if (page.items.size() != 2) {
      throw Error(ErrorCode::kCorruption, "redis: a reply to HSCAN of an unknown form");
    }
    const std::vector<RedisReply>& fields = page.items[1].items;
    for (size_t i = 0; i + 1 < fields.size(); i += 2) {
      if (fields[i].text.size() != encoding_.width) {
        throw Error(
            ErrorCode::kCorruption,
            cat("redis, table ", name(), ": keys of ", fields[i].text.size(), " bytes, but ",
                encoding_.width, " were expected: change \"supportlonglong\" or the table"));
      }
      take(encoding_.key(fields[i].text.data()), fields[i + 1].text);
    }
    return page.items[0].text;
  }

  void scan(size_t part, const std::string& hash, int64_t count, const TakeField& take) const {
    std::string cursor = "0";
    do {
      cursor = scan_once(part, hash, cursor, count, take);
    } while (cursor != "0");
  }

  // For eviction: when (8 bytes, seconds) or how often (text) a row was used, as HPS notes it.
  void mark_uses(const Parts& parts, std::span<const int64_t> keys,
                 std::span<const uint8_t> found) const {
    const bool by_time = settings_.overflow.policy == OverflowPolicy::kEvictOldest;
    const int64_t now = std::time(nullptr);
    const std::string_view time(reinterpret_cast<const char*>(&now), sizeof(now));
    std::vector<RedisTask> tasks;
    each_batch(parts, [&](size_t part, std::span<const uint32_t> numbers) {
      std::vector<uint32_t> used;
      for (const uint32_t i : numbers) {
        if (found.empty() || found[i] != 0) used.push_back(i);
      }
      if (used.empty()) return;
      if (!by_time) {
        for (const uint32_t i : used) {
          RedisTask& task = tasks.emplace_back(begin(part, "HINCRBY", uses_[part], 2));
          append_word(task.command, encoding_.bytes(keys[i]));
          append_word(task.command, "1");
        }
        return;
      }
      RedisTask& task = tasks.emplace_back(begin(part, "HSET", uses_[part], 2 * used.size()));
      for (const uint32_t i : used) {
        append_word(task.command, encoding_.bytes(keys[i]));
        append_word(task.command, time);
      }
    });
    cluster_->run(tasks);
  }

  // Who leaves first stands first.
  std::vector<int64_t> order_of_leaving(size_t part) const {
    std::vector<std::pair<int64_t, int64_t>> ranked;  // (rank, key)
    const OverflowPolicy policy = settings_.overflow.policy;
    Random random{.seed = static_cast<uint64_t>(std::time(nullptr)), .stream = part};
    const std::string& hash = marks_use_ ? uses_[part] : values_[part];
    scan(part, hash, 1000, [&](int64_t key, std::string_view value) {
      int64_t rank = 0;
      if (policy == OverflowPolicy::kEvictRandom) {
        rank = static_cast<int64_t>(random.bits());
      } else if (policy == OverflowPolicy::kEvictOldest) {
        std::memcpy(&rank, value.data(), std::min(value.size(), sizeof(rank)));
      } else {
        rank = std::atoll(std::string(value).c_str());
      }
      ranked.emplace_back(rank, key);
    });
    std::sort(ranked.begin(), ranked.end());
    std::vector<int64_t> keys;
    for (const auto& [rank, key] : ranked) keys.push_back(key);
    return keys;
  }

  void evict(size_t part) {
    std::vector<int64_t> keys = order_of_leaving(part);
    const auto keep = static_cast<size_t>(static_cast<double>(settings_.overflow.margin) *
                                          settings_.overflow.target);
    if (keys.size() <= keep) return;
    keys.resize(keys.size() - keep);
    erase(keys);
  }

  std::shared_ptr<RedisCluster> cluster_;
  const RedisSettings& settings_;
  KeyBytes encoding_;
  size_t row_bytes_;
  bool marks_use_;
  std::vector<std::string> values_, uses_;  // the names of the hashes, by partition
  std::vector<uint16_t> slots_;
  std::string required_note_, refused_note_;
};

class RedisStore : public KvStore {
 public:
  explicit RedisStore(const RedisSettings& settings)
      : cluster_(std::make_shared<RedisCluster>(settings)) {}

  std::shared_ptr<KvTable> open(const std::string& name, int64_t dim) override {
    return std::make_shared<RedisTable>(name, dim, cluster_);
  }
  void drop(const std::string& name) override {
    std::vector<RedisTask> tasks;
    for (int64_t part = 0; part < cluster_->settings().partitions; ++part) {
      for (const char* kind : {"v", "t"}) {
        const std::string hash = cat("hps_et{", name, "/p", part, "}", kind);
        tasks.push_back({redis_slot(hash), redis_command({"DEL", hash}),
                         [](const RedisItem&, RedisConnection&, Deadline) {}});
      }
    }
    cluster_->run(tasks);
  }
  bool persistent() const override { return true; }

  std::optional<std::string> note(const std::string& name) const override {
    std::optional<std::string> text;
    run(note_key(name), redis_command({"GET", note_key(name)}), [&](const RedisItem& item) {
      text.reset();
      if (item.kind == RedisItem::Kind::kText) text = item.text;
    });
    return text;
  }
  void set_note(const std::string& name, std::string_view text) override {
    run(note_key(name), redis_command({"SET", note_key(name), text}), [](const RedisItem&) {});
  }

  std::string describe() const override {
    return "redis at " + cluster_->settings().endpoints.front().text();
  }

 private:
  void run(const std::string& key, std::string command,
           const std::function<void(const RedisItem&)>& take) const {
    std::vector<RedisTask> tasks = {
        {redis_slot(key), std::move(command),
         [&](const RedisItem& first, RedisConnection&, Deadline) { take(first); }}};
    cluster_->run(tasks);
  }

  std::shared_ptr<RedisCluster> cluster_;
};

}  // namespace

std::unique_ptr<KvStore> make_redis_store(const RedisSettings& settings) {
  EMBLEM_REQUIRE(!settings.endpoints.empty(), "redis: no address is given");
  EMBLEM_REQUIRE(settings.partitions >= 1, "redis: ", settings.partitions, " partitions");
  EMBLEM_REQUIRE(settings.connections_per_node >= 1, "redis: num_node_connections is ",
                 settings.connections_per_node, "; at least 1 is needed");
  EMBLEM_REQUIRE(settings.max_batch >= 1 && settings.max_batch <= 262143,
                 "redis: max_batch_size is ", settings.max_batch,
                 "; Redis takes 1 to 262143 keys a command");
  return std::make_unique<RedisStore>(settings);
}

}  // namespace emblem

#endif
