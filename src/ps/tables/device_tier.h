// ps/tables/device_tier.h - L1: rows of served tables in the memory of a GPU, over the tiers of the
// tables. CUDA builds only.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/device/stream.h"
#include "core/math/half.h"
#include "embedding/cache/cached_rows.h"
#include "embedding/cache/missing_row_source.h"
#include "embedding/cache/row_cache.h"
#include "ps/tables/served_table.h"

namespace emblem::cuda {

struct DeviceTierSettings {
  std::vector<std::shared_ptr<ServedTable>> tables;
  DType dtype = DType::kF32;  // type of the rows in the cache
  CacheSize size;
  CachePolicy policy = CachePolicy::kLru;
  // Where this share or more of a batch's lookups in a table was in the cache, the others are
  // answered with the default row and fetched after the batch; HPS's rule. Above 1: every
  // batch waits.
  double hit_rate_threshold = 2.0;
  // The share of a table's rows in the cache to read again at a time; 0: a fixed number.
  double refresh_share = 0.0;
};

// Thread-safe. Updates of the tables reach rows in the cache before they are done, and so does
// ServedTable::refresh.
class DeviceTier {
 public:
  explicit DeviceTier(DeviceTierSettings settings);
  ~DeviceTier();
  DeviceTier(const DeviceTier&) = delete;

  // Rows for a lookup of `features`, each the number of its table, in batches of up to
  // max_rows rows. Used by one thread at a time; the tier outlives it.
  std::unique_ptr<CachedRows> make_rows(const Context& context, std::vector<int> features,
                                        int64_t max_rows);
  std::unique_ptr<MissingRowSource> make_missing();

  // Fills the cache with rows of each table, any as many as it has room for.
  void fill();
  // Reads all rows of a table in the cache again from the tiers below.
  void refresh(int table);
  void wait_until_fetched();  // what batches did not wait for
  RowCache& cache() { return *cache_; }

 private:
  class Missing;
  class Updates;
  struct Wanted {
    int table;
    std::vector<int64_t> keys;
  };
  // Fetches rows of different keys and puts those that are there into the cache.
  void fetch_and_insert(int table, std::span<const int64_t> keys, RowCache::Existing existing);
  void fetch_and_insert(int table, std::span<const int64_t> keys, RowCache::Existing existing,
                        size_t at_once);
  // Keys whose table is to be fetched later.
  void fetch_later(std::span<const int64_t> keys, std::span<const int32_t> tables,
                   std::span<const uint8_t> later);
  void work();
  void stop();
  void narrow(std::span<const float> from, int64_t dim, char* to) const;

  DeviceTierSettings settings_;
  Stream stream_;
  Context context_;
  std::unique_ptr<RowCache> cache_;
  std::vector<std::unique_ptr<Updates>> updates_;  // updates of each table

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Wanted> wanted_;
  size_t wanted_keys_ = 0;  // keys of wanted_ and the one in work
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace emblem::cuda
