// embedding/cuda/key_space.cuh - the keys of a table on the GPU: a hash map from any 64-bit key to
// a row number, and the metadata of rows.
//
// A bucket is 64 bytes, one memory transaction: five keys, their row numbers, and a count of keys
// that probed the full bucket and are in a later one. A search ends at the key, or at a bucket
// whose count is zero. So removed keys leave no tombstones, and buckets never need to be cleaned
// up. Row numbers do not depend on buckets: all rows can be in use while the buckets have room.
//
// Kernels that remove and kernels (or phases of one, after a grid-wide barrier) that insert must
// not overlap. Insertions of different keys may, and so may removals.
#pragma once

#include <cstdint>

#include "core/hash.h"
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

// What changes while kernels run.
struct KeyCounters {
  uint32_t size;     // keys that have a row
  uint32_t fresh;    // all rows that were ever in use are below
  uint32_t spare;    // rows on the free list
  uint32_t wanted;   // by the new keys of a batch
  uint32_t evicted;  // keys so far
};

struct KeySpace {
  Bucket* buckets = nullptr;
  uint64_t bucket_count = 0;
  RowMeta* meta = nullptr;
  uint32_t* spare_rows = nullptr;
  KeyCounters* counters = nullptr;
  int64_t rows = 0;  // capacity

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

  // After remove: returns the row to the free list.
  __device__ void give_back(uint32_t row) const {
    meta[row].score = kUnusedScore;
    spare_rows[atomicAdd(&counters->spare, 1u)] = row;
    atomicSub(&counters->size, 1u);
  }

  // The row of the `ticket`-th new key; take_rows updates the counters.
  __device__ uint32_t new_row(uint32_t ticket) const {
    const uint32_t spare = counters->spare;
    return ticket < spare ? spare_rows[spare - 1 - ticket] : counters->fresh + ticket - spare;
  }
  // Free rows: tickets below this get one.
  __device__ uint32_t room() const {
    return counters->spare + static_cast<uint32_t>(rows) - counters->fresh;
  }
  // One thread, after all new_row calls and a barrier.
  __device__ void take_rows(uint32_t count) const {
    const uint32_t reused = min(counters->spare, count);
    counters->spare -= reused;
    counters->fresh += count - reused;
    counters->size += count;
  }
};

}  // namespace emblem::cuda
