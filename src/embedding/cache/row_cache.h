// embedding/cache/row_cache.h - some rows of tables in fast memory: set-associative, the rows that
// are used least leave. On a GPU it is the first tier of what is served; the CPU's is the reference
// that the tests hold the GPU's against.
//
// Thread-safe. Lookups wait for nobody: neither for each other nor for rows that come, change or
// leave meanwhile (embedding/cache/row_cache_ref.h says how).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/context.h"
#include "embedding/cache/row_cache_ref.h"

namespace emblem {

namespace cuda {
class PinnedMemory;  // core/pinned.h
}

struct RowCacheSettings {
  int64_t row_bytes = 0;            // a multiple of 16
  std::vector<int64_t> table_rows;  // to hold of each table; rounded up to whole sets
  CachePolicy policy = CachePolicy::kLru;
};

// How many rows of tables a cache is to have.
struct CacheSize {
  double share = 0.2;  // of the rows of all tables together
  // Of every table, or all that it has: one batch may ask for all rows of a small one.
  int64_t least_rows = 65536;
  int64_t bytes = 0;  // at the most; 0: no limit
};

// Room for each of tables with these numbers of rows. Tables that are held whole for being small
// get twice the room that they need, since keys spread over sets by chance; what small tables have
// beyond their share, large ones have less.
std::vector<int64_t> cache_rows(std::span<const int64_t> table_rows, const CacheSize& size,
                                int64_t row_bytes);

class RowCache {
 public:
  // On the context's device, with that stream for insert() and read().
  RowCache(const Context& context, RowCacheSettings settings);
  ~RowCache();

  const RowCacheSettings& settings() const { return settings_; }
  int64_t slots() const { return slots_; }
  int64_t bytes() const;
  RowCacheRef ref() const { return ref_; }

  // A lookup and all that reads the rows it found stand between these, and so do insertions that
  // others than insert() make. Numbers count from 1.
  uint64_t begin_read();
  void end_read(uint64_t number);
  ReadEpochs epochs() const;  // now

  // ---- rows in host memory; these wait ----
  // What becomes of keys that have a row; kUpdate does nothing for those that have none.
  enum class Existing { kKeep, kReplace, kUpdate };
  // rows is [keys, row_bytes]. Keys are different. A key may find no slot, where lookups under way
  // keep all that could be free or where all rows of its set are of the last lookup; one that has a
  // row and finds no other slot then loses it.
  void insert(int table, std::span<const int64_t> keys, std::span<const char> rows,
              Existing existing);
  // found[i] = 1 and rows[i] = the row of keys[i], or found[i] = 0; a lookup like any other.
  // Returns how many were found.
  int64_t read(int table, std::span<const int64_t> keys, std::span<uint8_t> found,
               std::span<char> rows);
  // Those that have a row, in any order.
  std::vector<int64_t> keys(int table) const;

 private:
  RowCacheSettings settings_;
  Context context_;
  int64_t slots_ = 0;
  std::vector<CacheSets> sets_;
  Buffer<uint8_t> tags_;
  Buffer<CacheEntry> entries_;
  Buffer<uint32_t> counts_, locks_;
  Buffer<uint64_t> retired_;
  Buffer<char> rows_;
  Buffer<CacheSets> tables_;
  Buffer<unsigned long long> tick_;
  std::shared_ptr<cuda::PinnedMemory> pinned_;  // of epochs_, on a GPU
  std::unique_ptr<ReadEpochs> plain_;           // on a CPU
  volatile ReadEpochs* epochs_ = nullptr;
  RowCacheRef ref_;

  class ReadScope;
  mutable std::mutex mutex_;  // of those below
  std::set<uint64_t> active_;
  uint64_t issued_ = 0;
  // Passes below number `ended` have ended, and when this was noted those up to `overlapping` had
  // begun: once these have ended too, nobody reads what the former took away.
  uint64_t ended_ = 1, overlapping_ = 0;
  mutable std::mutex transfer_;  // of insert, read and keys
};

// What RowCache is made of on each device; `slots[i]` is that of keys[i] or kNoSlot32.
namespace cpu {
void find_cached(const RowCacheRef& cache, int table, std::span<const int64_t> keys,
                 std::span<uint32_t> slots);
void insert_cached(const RowCacheRef& cache, const ReadEpochs& epochs, int table,
                   std::span<const int64_t> keys, const char* rows, RowCache::Existing existing);
}  // namespace cpu
namespace cuda {
// Of memory on the device; asynchronous.
void find_cached(const Context& context, const RowCacheRef& cache, int table,
                 View<const int64_t> keys, uint32_t* slots);
void copy_cached(const Context& context, const RowCacheRef& cache, const uint32_t* slots,
                 int64_t count, char* rows);
void insert_cached(const Context& context, const RowCacheRef& cache, const ReadEpochs& epochs,
                   int table, View<const int64_t> keys, const char* rows,
                   RowCache::Existing existing);
}  // namespace cuda

}  // namespace emblem
