// embedding/cache/row_cache.cuh - a cache of rows on a GPU: a thread finds a row, a warp inserts
// one.
#pragma once

#include "embedding/cache/row_cache.h"
#include "embedding/cuda/lookup/by_address.cuh"

namespace emblem::cuda {

__device__ inline uint4 load_tags(const uint8_t* at) {
  uint4 tags;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(tags.x), "=r"(tags.y), "=r"(tags.z), "=r"(tags.w)
               : "l"(at)
               : "memory");
  return tags;
}

// Bit i: whether byte i of the four is the tag.
__device__ inline uint32_t equal_bytes(uint32_t four, uint32_t tag_four_times) {
  return (__vcmpeq4(four, tag_four_times) & 0x01010101u) * 0x01020408u >> 24;
}
__device__ inline uint32_t equal_tags(const uint4& tags, uint32_t tag) {
  return equal_bytes(tags.x, tag) | equal_bytes(tags.y, tag) << 4 | equal_bytes(tags.z, tag) << 8 |
         equal_bytes(tags.w, tag) << 12;
}

// The slot of a key, or kNoSlot32. Its row does not change during the pass.
__device__ inline uint32_t find_slot(const RowCacheRef& cache, uint32_t table, int64_t key,
                                     uint64_t tick) {
  const uint64_t hash = RowCacheRef::hash(key);
  const uint32_t first = cache.set_of(table, hash) * kWays;
  const uint32_t tag = RowCacheRef::tag(hash) * 0x01010101u;
  const uint4 low = load_tags(cache.tags + first), high = load_tags(cache.tags + first + 16);
  uint32_t candidates = equal_tags(low, tag) | equal_tags(high, tag) << 16;
  for (; candidates != 0; candidates &= candidates - 1) {
    const uint32_t slot = first + __ffs(candidates) - 1;
    auto* entry = reinterpret_cast<volatile longlong2*>(cache.entries + slot);
    if (entry->x != key) continue;
    if (static_cast<uint64_t>(entry->y) != tick) {  // only one lookup of a frequent row writes
      entry->y = static_cast<long long>(tick);
      if (cache.policy == CachePolicy::kLfu) atomicAdd(&cache.counts[slot], 1u);
    }
    return slot;
  }
  return kNoSlot32;
}

// What the insertions of a kernel have in common.
struct Insertion {
  // When another warp is changing the set. A row that is not inserted misses again.
  enum class Busy : uint8_t { kWait, kGiveUp };
  RowCache::Existing existing;
  Busy busy;
  uint64_t tick;
  ReadEpochs epochs;  // may be old, but must include the read of this kernel
};

// Returns whether it locked the set. Whole warp.
__device__ inline bool lock_set(uint32_t* lock, Insertion::Busy busy) {
  constexpr int kTries = 8;
  bool locked = false;
  if (threadIdx.x % 32 == 0) {
    for (int i = 0; !locked && (i < kTries || busy == Insertion::Busy::kWait); ++i) {
      if (i > 0) __nanosleep(100);
      locked = atomicCAS(lock, 0u, 1u) == 0;
    }
    __threadfence();
  }
  __syncwarp();
  return __shfl_sync(~0u, locked, 0);
}
__device__ inline void unlock_set(uint32_t* lock) {
  __threadfence();
  __syncwarp();
  if (threadIdx.x % 32 == 0) atomicExch(lock, 0u);
}

// The lane with the lowest value among those that take part, or -1.
__device__ inline int lowest_lane(uint64_t value, bool takes) {
  uint64_t lowest = takes ? value : ~0ull;
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, lowest, distance);
    lowest = other < lowest ? other : lowest;
  }
  const uint32_t lanes = __ballot_sync(~0u, takes && value == lowest);
  return __ffs(lanes) - 1;
}

// The state of a lane's slot, and of the set for a new row.
struct SlotState {
  uint8_t tag;
  int64_t key;
  uint64_t used;
  uint32_t free;   // lanes of free slots
  int spare;       // slots without a row
  bool evictable;  // the row of this slot

  __device__ SlotState(const RowCacheRef& cache, uint32_t slot, const Insertion& insertion) {
    tag = *const_cast<volatile uint8_t*>(cache.tags + slot);
    const auto* entry = const_cast<volatile RowCacheEntry*>(cache.entries + slot);
    key = entry->key;
    used = entry->used;
    const uint64_t retired = *const_cast<volatile uint64_t*>(cache.retired + slot);
    free = __ballot_sync(~0u, tag == 0 && retired < insertion.epochs.free_before);
    spare = __popc(__ballot_sync(~0u, tag == 0));
    evictable = tag != 0 && used + 1 < insertion.tick;
  }
  __device__ bool can_insert() const {
    const bool any_evictable = __any_sync(~0u, evictable);
    return free != 0 || (spare < kSpareWays && any_evictable);
  }
};

// Clears the tag of a row; readers that found it before may still read it.
__device__ inline void retire_slot(const RowCacheRef& cache, uint32_t slot, uint64_t mark) {
  *const_cast<volatile uint8_t*>(cache.tags + slot) = 0;
  cache.retired[slot] = mark;
}

// Inserts a row into the cache, unless its set has no free slot. Whole warp, one lane per slot of
// the set.
__device__ inline void insert_row(const RowCacheRef& cache, const Insertion& insertion,
                                  uint32_t table, int64_t key, const char* row) {
  const int lane = threadIdx.x % 32;
  const uint64_t hash = RowCacheRef::hash(key);
  const uint32_t set = cache.set_of(table, hash), slot = set * kWays + lane;
  const uint8_t wanted = RowCacheRef::tag(hash);
  if (insertion.busy == Insertion::Busy::kGiveUp && !SlotState(cache, slot, insertion).can_insert())
    return;
  if (!lock_set(&cache.locks[set], insertion.busy)) return;
  const SlotState state(cache, slot, insertion);
  const bool same = state.tag == wanted && state.key == key;
  const uint32_t present = __ballot_sync(~0u, same);
  const bool unchanged = present != 0 ? insertion.existing == RowCache::Existing::kKeep
                                      : insertion.existing == RowCache::Existing::kUpdate;
  if (unchanged) return unlock_set(&cache.locks[set]);
  const int target = __ffs(state.free) - 1;
  const bool lfu = cache.policy == CachePolicy::kLfu;
  if (target >= 0) {
    copy_row(cache.row(set * kWays + target), row, cache.row_bytes);
    if (lane == target) {
      cache.entries[slot] = {key, insertion.tick - 1};
      if (lfu) cache.counts[slot] = 1;
    }
    __threadfence();
    __syncwarp();
    if (lane == target) *const_cast<volatile uint8_t*>(cache.tags + slot) = wanted;
    __threadfence();  // the new row is visible before an old one is retired
  }
  if (same) retire_slot(cache, slot, insertion.epochs.issued);
  if (present == 0 && state.spare - (target >= 0 ? 1 : 0) < kSpareWays) {
    const uint32_t count = lfu ? cache.counts[slot] : 0;
    const uint64_t worth =
        lfu ? static_cast<uint64_t>(count) << 32 | (state.used & 0xffffffffu) : state.used;
    const int evicted = lowest_lane(worth, state.evictable);
    if (lane == evicted) retire_slot(cache, slot, insertion.epochs.issued);
    if (lfu && evicted >= 0 && state.tag != 0)
      cache.counts[slot] = count - count / 16;  // counts decay
  }
  unlock_set(&cache.locks[set]);
}

}  // namespace emblem::cuda
