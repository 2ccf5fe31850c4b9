// store/redis_table.h - one table in Redis: the hashes hps_et{TABLE/pN}v, N = 0 .. partitions - 1.
// Builds with Redis only.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "store/key_bytes.h"
#include "store/kv_store.h"
#include "store/redis_cluster.h"
#include "store/redis_uses.h"

namespace emblem {

// The key of a note (KvStore::note).
std::string redis_note_key(const std::string& name);

class RedisTable final : public KvTable {
 public:
  RedisTable(std::string name, int64_t dim, std::shared_ptr<RedisCluster> cluster);

  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override;
  const void* fetch_group() const override { return cluster_.get(); }
  void fetch_together(std::span<KvFetch* const> fetches) const override;
  void require_note(const std::string& note, const std::string& refused) override;
  void insert(std::span<const int64_t> keys, std::span<const float> rows) override;
  void insert_missing(std::span<const int64_t> keys, std::span<const float> rows) override;
  void erase(std::span<const int64_t> keys) override;
  void clear() override;
  int64_t size() const override;
  size_t partitions() const override { return values_.size(); }
  size_t partition_of(int64_t key) const override;
  uint64_t evicted() const override { return evicted_.load(std::memory_order_relaxed); }
  void iterate(int64_t batch_rows, const Take& take) const override;

  // The names of a table's hashes.
  static std::vector<std::string> hashes_of(const std::string& table, int64_t partitions);

 private:
  using Parts = std::vector<std::vector<uint32_t>>;
  struct Fetching;

  Parts by_part(std::span<const int64_t> keys) const;
  template <class Body>
  void each_batch(const Parts& parts, Body&& body) const;
  void ask(Fetching& fetching, std::vector<RedisTask>& tasks) const;
  RedisTask look_for_note(bool& whole) const;
  void check_row(int64_t key, std::string_view row) const;
  void check_some_row() const;
  int64_t key_of(std::string_view field) const;
  enum class Existing { kReplace, kKeep };
  void insert(std::span<const int64_t> keys, std::span<const float> rows, Existing existing);
  void ask_to_write(size_t part, std::span<const int64_t> keys, std::span<const float> rows,
                    std::span<const uint32_t> numbers, Existing existing,
                    std::vector<RedisTask>& tasks) const;
  void evict(size_t part);

  std::shared_ptr<RedisCluster> cluster_;
  const RedisSettings& settings_;
  KeyBytes encoding_;
  size_t row_bytes_;
  std::vector<RedisHash> values_;  // by partition
  RedisUses uses_;
  std::string required_note_, refused_note_;
  std::atomic<uint64_t> evicted_{0};
};

}  // namespace emblem
