// The reference for the GPU version: one key after the other.
#include <algorithm>
#include <cstring>

#include "embedding/cache/row_cache.h"

namespace emblem::cpu {
namespace {

uint32_t find_slot(const RowCacheRef& cache, int table, int64_t key) {
  const uint64_t hash = RowCacheRef::hash(key);
  const uint32_t first = cache.set_of(static_cast<uint32_t>(table), hash) * kWays;
  for (uint32_t slot = first; slot < first + kWays; ++slot) {
    if (cache.tags[slot] == RowCacheRef::tag(hash) && cache.entries[slot].key == key) return slot;
  }
  return kNoSlot32;
}

void retire(const RowCacheRef& cache, const ReadEpochs& epochs, uint32_t slot) {
  cache.tags[slot] = 0;
  cache.retired[slot] = epochs.issued;
}

// The row with the lowest value is evicted first.
uint64_t worth(const RowCacheRef& cache, uint32_t slot) {
  const uint64_t used = cache.entries[slot].used;
  if (cache.policy == CachePolicy::kLru) return used;
  return static_cast<uint64_t>(cache.counts[slot]) << 32 | (used & 0xffffffffu);
}

void make_spare(const RowCacheRef& cache, const ReadEpochs& epochs, uint32_t first, uint32_t kept) {
  uint32_t evicted = kNoSlot32;
  for (uint32_t slot = first; slot < first + kWays; ++slot) {
    if (cache.tags[slot] == 0 || cache.entries[slot].used + 1 >= *cache.tick) continue;
    if (evicted == kNoSlot32 || worth(cache, slot) < worth(cache, evicted)) evicted = slot;
  }
  if (evicted == kNoSlot32) return;
  retire(cache, epochs, evicted);
  if (cache.policy != CachePolicy::kLfu) return;
  for (uint32_t slot = first; slot < first + kWays; ++slot) {
    if (slot != kept) cache.counts[slot] -= cache.counts[slot] / 16;
  }
}

void insert_row(const RowCacheRef& cache, const ReadEpochs& epochs, int table, int64_t key,
                const char* row, RowCache::Existing existing) {
  const uint64_t hash = RowCacheRef::hash(key);
  const uint32_t first = cache.set_of(static_cast<uint32_t>(table), hash) * kWays;
  const uint32_t present = find_slot(cache, table, key);
  const bool unchanged = present != kNoSlot32 ? existing == RowCache::Existing::kKeep
                                              : existing == RowCache::Existing::kUpdate;
  if (unchanged) return;
  uint32_t target = kNoSlot32;
  for (uint32_t slot = first; slot < first + kWays && target == kNoSlot32; ++slot) {
    if (cache.tags[slot] == 0 && cache.retired[slot] < epochs.free_before) target = slot;
  }
  if (target != kNoSlot32) {
    std::memcpy(cache.row(target), row, static_cast<size_t>(cache.row_bytes));
    cache.entries[target] = {key, *cache.tick - 1};
    cache.counts[target] = 1;
    cache.tags[target] = RowCacheRef::tag(hash);
  }
  if (present != kNoSlot32) return retire(cache, epochs, present);
  if (std::count(cache.tags + first, cache.tags + first + kWays, 0) < kSpareWays)
    make_spare(cache, epochs, first, target);
}

}  // namespace

void find_cached(const RowCacheRef& cache, int table, std::span<const int64_t> keys,
                 std::span<uint32_t> slots) {
  for (size_t i = 0; i < keys.size(); ++i) {
    slots[i] = find_slot(cache, table, keys[i]);
    if (slots[i] == kNoSlot32) continue;
    RowCacheEntry& entry = cache.entries[slots[i]];
    if (entry.used != *cache.tick) ++cache.counts[slots[i]];
    entry.used = *cache.tick;
  }
  ++*cache.tick;
}

void insert_cached(const RowCacheRef& cache, const ReadEpochs& epochs, int table,
                   std::span<const int64_t> keys, const char* rows, RowCache::Existing existing) {
  for (size_t i = 0; i < keys.size(); ++i)
    insert_row(cache, epochs, table, keys[i], rows + static_cast<int64_t>(i) * cache.row_bytes,
               existing);
}

}  // namespace emblem::cpu
