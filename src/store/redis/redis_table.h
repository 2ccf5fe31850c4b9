// store/redis/redis_table.h - one table in Redis: the hashes hps_et{TABLE/pN}v, N = 0 .. partitions
// - 1. Builds with Redis only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/key_bytes.h"
#include "store/miss_watch.h"
#include "store/partitioned_table.h"
#include "store/redis/redis_cluster.h"
#include "store/redis/redis_hash.h"
#include "store/redis/redis_parts.h"
#include "store/redis/redis_row.h"
#include "store/table_note.h"

namespace emblem {

// When or how often the rows of a table were used, as HPS keeps it for eviction: the hashes
// hps_et{TABLE/pN}t, a field for each key. Builds with Redis only. Counts are written as absolute
// numbers, so that a command can be sent again after its reply was lost. Of uses that several
// servers count at the same moment, some may be missed.
class RedisUses {
 public:
  // `hashes`: by partition. `settings` are borrowed.
  RedisUses(std::vector<RedisHash> hashes, const RedisSettings& settings);

  // Whether the policy needs uses at all.
  bool are_kept() const { return kept_; }
  const RedisHash& hash(size_t part) const { return hashes_[part]; }

  // Asks for the counts of keys[numbers[i]] so far, which go to counts[numbers[i]], where the
  // policy needs them. All but `tasks` must stay until the tasks have run.
  void read(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
            std::span<int64_t> counts, std::vector<RedisTask>& tasks) const;
  // Notes one more use of each, now.
  void write(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
             std::span<const int64_t> counts, std::vector<RedisTask>& tasks) const;

  // What to evict first comes first: small is old, or seldom used.
  int64_t rank(std::string_view use) const;

 private:
  std::vector<RedisHash> hashes_;
  const RedisSettings& settings_;
  KeyBytes encoding_;
  OverflowPolicy policy_;
  bool kept_;
};

// The key of a note (KvStore::note).
std::string redis_note_key(const std::string& name);

class RedisTable final : public PartitionedTable {
 public:
  RedisTable(std::string name, int64_t dim, std::shared_ptr<RedisCluster> cluster);

  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override;
  const void* fetch_group() const override { return cluster_.get(); }
  void fetch_together(std::span<KvFetch* const> fetches) const override;
  void require_note(const std::string& note, const std::string& refused) override;
  void insert(std::span<const int64_t> keys, std::span<const float> rows) override;
  void insert_missing(std::span<const int64_t> keys, std::span<const float> rows) override;
  void bulk_insert(std::span<const int64_t> keys, std::span<const float> rows) override;
  void erase(std::span<const int64_t> keys) override;
  void clear() override;
  int64_t size() const override { return parts_.rows(); }
  size_t partitions() const override { return parts_.size(); }
  size_t partition_of(int64_t key) const override;
  uint64_t evicted() const override { return evicted_.load(std::memory_order_relaxed); }
  void iterate(int64_t batch_rows, const Take& take) const override;

  std::vector<size_t> lost_parts(const std::string& generation) const override {
    return parts_.lost(generation);
  }
  void start_filling(std::span<const size_t> parts, const std::string& generation) override;
  void finish_filling(std::span<const size_t> parts, const std::string& generation) override;
  void adopt(const std::string& generation) override { parts_.adopt(generation); }
  uint64_t damaged() const override { return damaged_.load(std::memory_order_relaxed); }

  // The names of a table's hashes.
  static std::vector<std::string> hashes_of(const std::string& table, int64_t partitions);

 private:
  using Parts = std::vector<std::vector<uint32_t>>;
  struct Fetching;

  Parts by_part(std::span<const int64_t> keys) const;
  // Calls body(part, numbers) with at most `most` numbers at a time.
  template <class Body>
  static void each_batch(const Parts& parts, size_t most, Body&& body) {
    for (size_t part = 0; part < parts.size(); ++part) {
      const std::span<const uint32_t> all = parts[part];
      for (size_t from = 0; from < all.size(); from += most)
        body(part, all.subspan(from, std::min(most, all.size() - from)));
    }
  }

  void ask(Fetching& fetching, std::vector<RedisTask>& tasks) const;
  void take_row(Fetching& fetching, uint32_t i, const RedisItem& item) const;
  RedisTask read_note(Fetching& fetching) const;
  // Finds, after the replies, which keys are unknown.
  void find_lost(Fetching& fetching, std::vector<RedisTask>& checks) const;
  void note_unknown(Fetching& fetching) const;
  void note_uses(Fetching& fetching, std::vector<RedisTask>& marks) const;
  void log_damage(int64_t key, const std::string& problem) const;

  void check_some_row() const;
  int64_t key_of(std::string_view field) const;
  enum class Existing { kReplace, kKeep };
  void insert(std::span<const int64_t> keys, std::span<const float> rows, Existing existing);
  void remove_damaged(size_t part);
  void evict(size_t part);

  std::shared_ptr<RedisCluster> cluster_;
  const RedisSettings& settings_;
  KeyBytes encoding_;
  RedisRow row_;
  RedisParts parts_;
  RedisUses uses_;
  std::string required_note_, refused_note_;
  std::atomic<uint64_t> evicted_{0};
  mutable std::atomic<uint64_t> damaged_{0};
  mutable std::vector<MissWatch> misses_;  // by partition
  // While partitions are filled, by the one caller that does.
  bool is_filling_ = false;
  std::vector<int64_t> added_;  // rows, by partition
};

}  // namespace emblem
