// embedding/cuda/table/key_space.cuh - the keys of a table on the GPU: a hash map from any 64-bit
// key to a row number, and the metadata of rows.
//
// A bucket is 64 bytes, one memory transaction: five keys, their row numbers, and a count of keys
// that probed the full bucket and are in a later one. A search ends at the key, or at a bucket
// whose count is zero. So removed keys leave no tombstones, and buckets never need to be cleaned
// up. Row numbers do not depend on buckets: all rows can be in use while the buckets have room.
//
// The keys may be divided into bins (embedding/bins.h), which share the buckets. A bin counts its
// rows, and keeps its free ones, by itself; its rows are whole pages, so that it can be searched
// without those of others.
//
// Kernels that remove and kernels (or phases of one, after a grid-wide barrier) that insert must
// not overlap. Insertions of different keys may, and so may removals.
#pragma once

#include <cstdint>

#include "core/math/hash.h"
#include "embedding/bins.h"
#include "embedding/rows_ref.h"

namespace emblem::cuda {

inline constexpr int kBucketSlots = 5;
inline constexpr double kBucketLoad = 0.6;  // maximum load factor
inline constexpr int64_t kUnusedScore = INT64_MIN;

struct __align__(64) Bucket {
  int64_t keys[kBucketSlots];
  uint32_t rows[kBucketSlots];  // kNoRow: free
  uint32_t passed;              // keys in later buckets because this one was full
};
static_assert(sizeof(Bucket) == 64);

// One memory sector per row.
struct __align__(32) RowMeta {
  int64_t key;
  int64_t score;  // kUnusedScore: the row is free
  // The version of the last training pass that touched the row << 32 | its number among the
  // distinct rows of that pass.
  unsigned long long mark;
  int64_t is_new;  // with a cache: has no values yet
};

// What changes while kernels run, of a bin. Its rows have indices from 0 (KeySpace::row_of).
struct KeyCounters {
  uint32_t size;         // keys that have a row
  uint32_t fresh;        // the indices of all rows that were ever in use are below
  uint32_t spare;        // rows on the free list
  uint32_t wanted;       // by the new keys of a batch
  uint32_t pages;        // that it has, where pages are given out
  uint32_t given_pages;  // pages given to all bins, with the first
};

struct KeySpace {
  Bucket* buckets = nullptr;
  uint64_t bucket_count = 0;
  RowMeta* meta = nullptr;
  uint32_t* spare_rows = nullptr;   // those of a bin are in its own pages
  KeyCounters* counters = nullptr;  // [bins]
  int64_t rows = 0;                 // capacity
  HeldBins bins;
  uint32_t page_rows = 0;  // rows of a page of several bins
  uint32_t* pages =
      nullptr;  // [, bins] by number of the page in its bin; null: bin b has page b only

  __device__ uint64_t home(int64_t key) const {
    return __umul64hi(mix64(static_cast<uint64_t>(key) + 0x9e3779b97f4a7c15ull), bucket_count);
  }
  __device__ uint64_t next(uint64_t bucket) const {
    return bucket + 1 == bucket_count ? 0 : bucket + 1;
  }

  // The row of a key, or kNoRow. kFresh: for buckets that this kernel changes.
  enum class Read { kCached, kFresh };
  template <Read kRead = Read::kCached>
  __device__ uint32_t find(int64_t key) const {
    for (uint64_t bucket = home(key);; bucket = next(bucket)) {
      uint4 words[4];
      const auto* from = reinterpret_cast<const uint4*>(buckets + bucket);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = kRead == Read::kCached ? __ldg(from + i) : __ldcg(from + i);
      const uint32_t low = static_cast<uint32_t>(static_cast<uint64_t>(key));
      const uint32_t high = static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32);
      uint32_t row = kNoRow;
      if (words[0].x == low && words[0].y == high) row = words[2].z;
      if (words[0].z == low && words[0].w == high && words[2].w != kNoRow) row = words[2].w;
      if (words[1].x == low && words[1].y == high && words[3].x != kNoRow) row = words[3].x;
      if (words[1].z == low && words[1].w == high && words[3].y != kNoRow) row = words[3].y;
      if (words[2].x == low && words[2].y == high && words[3].z != kNoRow) row = words[3].z;
      if (row != kNoRow || words[3].w == 0) return row;
    }
  }

  // The key must be absent.
  __device__ void insert(int64_t key, uint32_t row) const {
    for (uint64_t at = home(key);; at = next(at)) {
      Bucket& bucket = buckets[at];
      for (int slot = 0; slot < kBucketSlots; ++slot) {
        if (__ldcg(&bucket.rows[slot]) != kNoRow) continue;
        if (atomicCAS(&bucket.rows[slot], kNoRow, row) != kNoRow) continue;
        bucket.keys[slot] = key;
        return;
      }
      atomicAdd(&bucket.passed, 1u);
    }
  }

  // True for the one caller that removed the key.
  __device__ bool remove(int64_t key, uint32_t row) const {
    const uint64_t first = home(key);
    for (uint64_t at = first;; at = next(at)) {
      Bucket& bucket = buckets[at];
      for (int slot = 0; slot < kBucketSlots; ++slot) {
        if (bucket.keys[slot] != key || __ldcg(&bucket.rows[slot]) != row) continue;
        if (atomicCAS(&bucket.rows[slot], row, kNoRow) != row) return false;
        for (uint64_t before = first; before != at; before = next(before)) {
          atomicSub(&buckets[before].passed, 1u);
        }
        return true;
      }
      if (__ldcg(&bucket.passed) == 0) return false;  // another caller was faster
    }
  }

  __device__ uint32_t bin_of(int64_t key) const { return static_cast<uint32_t>(bins.of(key)); }
  __device__ uint32_t bin_count() const { return static_cast<uint32_t>(bins.count); }
  __device__ uint32_t row_of(uint32_t bin, uint32_t index) const {
    if (bin_count() == 1) return index;
    const uint32_t page = pages == nullptr ? bin : pages[index / page_rows * bin_count() + bin];
    return page * page_rows + index % page_rows;
  }
  // All rows that were ever in use are below. Of several bins, those that were not are free.
  __device__ uint32_t rows_end() const {
    if (bin_count() == 1) return counters->fresh;
    return pages == nullptr ? static_cast<uint32_t>(rows) : counters->given_pages * page_rows;
  }

  // After remove: returns the row to the free list.
  __device__ void give_back(int64_t key, uint32_t row) const {
    const uint32_t bin = bin_of(key);
    meta[row].score = kUnusedScore;
    spare_rows[row_of(bin, atomicAdd(&counters[bin].spare, 1u))] = row;
    atomicSub(&counters[bin].size, 1u);
  }

  // The index of a new key among those of a batch in its bin.
  __device__ uint32_t take_ticket(int64_t key) const {
    return atomicAdd(&counters[bin_of(key)].wanted, 1u);
  }
  // The row of the `ticket`-th new key of a bin; take_rows updates the counters.
  __device__ uint32_t new_row(uint32_t bin, uint32_t ticket) const {
    const KeyCounters& of = counters[bin];
    return ticket < of.spare ? spare_rows[row_of(bin, of.spare - 1 - ticket)]
                             : row_of(bin, of.fresh + ticket - of.spare);
  }
  // Free rows of a bin: tickets below this get one.
  __device__ uint32_t room(uint32_t bin) const {
    const KeyCounters& of = counters[bin];
    uint32_t most = static_cast<uint32_t>(rows);
    if (bin_count() > 1) most = page_rows * (pages == nullptr ? 1 : of.pages);
    return of.spare + most - of.fresh;
  }
  // Gives a bin the pages that its new keys need, as long as there are some. One thread a bin,
  // after all take_ticket calls and a barrier, before new_row.
  __device__ void add_pages(uint32_t bin) const {
    if (pages == nullptr) return;
    KeyCounters& of = counters[bin];
    const uint32_t all = static_cast<uint32_t>(rows / page_rows);
    const uint32_t needed = of.fresh + of.wanted - min(of.spare, of.wanted);
    for (; of.pages * page_rows < needed; ++of.pages) {
      const uint32_t page = atomicAdd(&counters->given_pages, 1u);
      if (page >= all) {
        atomicSub(&counters->given_pages, 1u);
        return;
      }
      pages[of.pages * bin_count() + bin] = page;
    }
  }
  // One thread a bin, after all new_row calls and a barrier: the new keys have their rows. Returns
  // how many got none.
  __device__ uint32_t take_rows(uint32_t bin) const {
    KeyCounters& of = counters[bin];
    const uint32_t count = min(of.wanted, room(bin)), without = of.wanted - count;
    const uint32_t reused = min(of.spare, count);
    of.spare -= reused;
    of.fresh += count - reused;
    of.size += count;
    of.wanted = 0;
    return without;
  }
};

}  // namespace emblem::cuda
