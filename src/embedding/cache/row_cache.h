// embedding/cache/row_cache.h - a set-associative cache of table rows, with LRU or LFU eviction. On
// a GPU it is the first tier of served tables; the CPU version is the reference for tests of the
// GPU version.
//
// Thread-safe. Lookups never block: neither on each other nor on rows that are inserted, replaced
// or evicted meanwhile (embedding/cache/row_cache_ref.h describes how).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "core/device/context.h"
#include "core/memory/buffer.h"
#include "embedding/cache/row_cache_ref.h"

namespace emblem {

namespace cuda {
class PinnedMemory;  // core/memory/pinned.h
}

struct RowCacheSettings {
  int64_t row_bytes = 0;            // a multiple of 16
  std::vector<int64_t> table_rows;  // to hold of each table; rounded up to whole sets
  CachePolicy policy = CachePolicy::kLru;
};

// The size of a cache.
struct CacheSize {
  double share = 0.2;  // share of the rows of all tables together
  // Rows of every table, or all it has: one batch may need all rows of a small table.
  int64_t least_rows = 65536;
  int64_t bytes = 0;  // maximum; 0: no limit
};

// The rows to cache of each of tables with these numbers of rows. Tables that are small enough to
// be cached completely get twice their rows, because keys are spread unevenly over sets; what small
// tables get beyond their share is taken from large ones.
std::vector<int64_t> cache_rows(std::span<const int64_t> table_rows, const CacheSize& size,
                                int64_t row_bytes);

class RowCache {
 public:
  // A cache on the context's device, with that stream for insert() and read().
  RowCache(const Context& context, RowCacheSettings settings);
  ~RowCache();

  const RowCacheSettings& settings() const { return settings_; }
  int64_t slots() const { return slots_; }
  int64_t bytes() const;
  RowCacheRef ref() const { return ref_; }

  // Every lookup and every read of the rows that it found must happen between these calls, and so
  // must insertions other than by insert(). Numbers count from 1.
  uint64_t begin_read();
  void end_read(uint64_t number);
  ReadEpochs epochs() const;  // the current ones

  // ---- with rows in host memory; synchronous ----
  // What to do with keys that are cached; kUpdate does nothing for keys that are not.
  enum class Existing { kKeep, kReplace, kUpdate };
  // rows is [keys, row_bytes]. Keys are distinct. A key may find no slot, when running lookups
  // still use all free ones or when all rows of its set belong to the last lookup; a cached key
  // that finds no other slot is then evicted.
  void insert(int table, std::span<const int64_t> keys, std::span<const char> rows,
              Existing existing);
  // found[i] = 1 and rows[i] = the row of keys[i], or found[i] = 0; a lookup like any other.
  // Returns how many were found.
  int64_t read(int table, std::span<const int64_t> keys, std::span<uint8_t> found,
               std::span<char> rows);
  // The cached keys, in any order.
  std::vector<int64_t> keys(int table) const;

 private:
  RowCacheSettings settings_;
  Context context_;
  int64_t slots_ = 0;
  std::vector<CacheSets> sets_;
  Buffer<uint8_t> tags_;
  Buffer<RowCacheEntry> entries_;
  Buffer<uint32_t> counts_, locks_;
  Buffer<uint64_t> retired_;
  Buffer<char> rows_;
  Buffer<CacheSets> tables_;
  Buffer<unsigned long long> tick_;
  std::shared_ptr<cuda::PinnedMemory> pinned_;  // memory of epochs_, on a GPU
  std::unique_ptr<ReadEpochs> plain_;           // on a CPU
  volatile ReadEpochs* epochs_ = nullptr;
  RowCacheRef ref_;

  class ReadScope;
  mutable std::mutex mutex_;  // guards the members below
  std::set<uint64_t> active_;
  uint64_t issued_ = 0;
  // All reads below number `ended` have ended, and those up to `overlapping` had begun by then:
  // once these have ended too, no read uses slots that were retired before `ended`.
  uint64_t ended_ = 1, overlapping_ = 0;
  mutable std::mutex transfer_mutex_;  // guards insert, read and keys
};

// The implementation on each device; `slots[i]` is that of keys[i] or kNoSlot32.
namespace cpu {
void find_cached(const RowCacheRef& cache, int table, std::span<const int64_t> keys,
                 std::span<uint32_t> slots);
void insert_cached(const RowCacheRef& cache, const ReadEpochs& epochs, int table,
                   std::span<const int64_t> keys, const char* rows, RowCache::Existing existing);
}  // namespace cpu
namespace cuda {
// Keys and results are memory on the device; asynchronous.
void find_cached(const Context& context, const RowCacheRef& cache, int table,
                 View<const int64_t> keys, uint32_t* slots);
void copy_cached(const Context& context, const RowCacheRef& cache, const uint32_t* slots,
                 int64_t count, char* rows);
void insert_cached(const Context& context, const RowCacheRef& cache, const ReadEpochs& epochs,
                   int table, View<const int64_t> keys, const char* rows,
                   RowCache::Existing existing);
}  // namespace cuda

}  // namespace emblem
