// embedding/cuda/table/evict_in_bins.cuh - eviction of exactly the lowest (score, key) of the bins
// of a key space that have too many, by a cooperative kernel. Full bins are worked on at the same
// time, by groups of blocks.
#pragma once

#include <cooperative_groups.h>

#include "embedding/cuda/table/key_space.cuh"
#include "embedding/cuda/table/select_lowest.cuh"

namespace emblem::cuda {

inline constexpr int64_t kEvictedShare = 20;  // a twentieth of a limit is evicted at once

// Bins in shared memory.
struct FullBins {
  uint32_t count;
  uint32_t bins[kMostBins];
};

// Lists the bins of which is_full(bin). Whole block.
template <class IsFull>
__device__ void list_full_bins(uint32_t bins, IsFull&& is_full, FullBins* full) {
  __syncthreads();  // an earlier list is no longer read
  if (threadIdx.x < 32) {
    uint32_t listed = 0;
    for (uint32_t first = 0; first < bins; first += 32) {
      const uint32_t bin = first + threadIdx.x;
      const uint32_t found = __ballot_sync(~0u, bin < bins && is_full(bin));
      if (found >> threadIdx.x & 1)
        full->bins[listed + __popc(found & ((1u << threadIdx.x) - 1))] = bin;
      listed += __popc(found);
    }
    if (threadIdx.x == 0) full->count = listed;
  }
  __syncthreads();
}

// Calls work(bin, group, scratch) for each bin of which is_full(bin), which is the same for all
// threads, by all blocks of a group. Whole grid; ends with a barrier if there are any. `select` has
// one for each bin.
template <class IsFull, class Work>
__device__ void for_each_full_bin(uint32_t bins, IsFull&& is_full, FullBins* full,
                                  SelectScratch* select, cooperative_groups::grid_group grid,
                                  Work&& work) {
  if (bins == 1 && !is_full(0)) return;
  list_full_bins(bins, is_full, full);
  if (full->count == 0) return;
  grid.sync();  // all blocks have made the list
  const uint32_t groups = min(full->count, gridDim.x);
  const uint32_t mine = blockIdx.x % groups;
  const uint32_t blocks = (gridDim.x - mine + groups - 1) / groups;
  for (uint32_t i = mine; i < full->count; i += groups)
    work(full->bins[i], BlockGroup(&select[i].barrier, blockIdx.x / groups, blocks), &select[i]);
  grid.sync();
}

// Whether a row may be evicted: it is in use and the pass `version` did not touch it.
__device__ inline bool is_evictable(const RowMeta& meta, uint32_t version) {
  return meta.score != kUnusedScore && static_cast<uint32_t>(meta.mark >> 32) != version;
}
inline constexpr uint32_t kNoVersion = ~0u;  // version of no pass: all rows in use may be evicted

// The rows of a bin that may be evicted: visit(meta, row), of a thread's share.
template <class Visit>
__device__ void for_each_evictable(const KeySpace& keys, uint32_t bin, uint32_t version,
                                   const BlockGroup& group, Visit&& visit) {
  const uint32_t end = keys.counters[bin].fresh;
  for (uint32_t index = group.thread_rank(); index < end; index += group.num_threads()) {
    const uint32_t row = keys.row_of(bin, index);
    if (is_evictable(keys.meta[row], version)) visit(keys.meta[row], row);
  }
}

// Evicts the rows of a bin up to `last`. Whole group.
__device__ inline void evict_up_to(const Rank& last, const KeySpace& keys, uint32_t bin,
                                   uint32_t version, const BlockGroup& group) {
  for_each_evictable(keys, bin, version, group, [&](const RowMeta& meta, uint32_t row) {
    const int64_t key = meta.key;
    if (!rank_of(meta.score, key).at_most(last)) return;
    if (keys.remove(key, row)) keys.give_back(key, row);
  });
}

// Evicts the lowest rows of a bin: count_of(candidates) of them. Whole group.
template <class CountOf>
__device__ void evict_lowest(const KeySpace& keys, uint32_t bin, uint32_t version,
                             const BlockGroup& group, SelectScratch* scratch, CountOf&& count_of) {
  const auto for_each = [&](auto&& visit) {
    for_each_evictable(keys, bin, version, group,
                       [&](const RowMeta& meta, uint32_t) { visit(meta.score, meta.key); });
  };
  count_candidates(for_each, scratch, group);
  const uint32_t count = count_of(__ldcg(&scratch->candidates));
  if (count > 0) {
    evict_up_to(kth_lowest(for_each, count, scratch, group), keys, bin, version, group);
    return;
  }
  group.sync();
  clear_scratch(scratch, 0, group);
}

// Drops the least frequent waiting keys of bins that have more than `most`, in bulk. Whole grid.
__device__ inline void prune_waiting(const KeySpace& waiting, int64_t most, SelectScratch* select,
                                     FullBins* full, cooperative_groups::grid_group grid) {
  if (most == 0) return;
  for_each_full_bin(
      waiting.bin_count(), [&](uint32_t bin) { return waiting.counters[bin].size > most; }, full,
      select, grid,
      [&](uint32_t bin, const BlockGroup& group, SelectScratch* scratch) {
        evict_lowest(waiting, bin, kNoVersion, group, scratch, [&](uint32_t candidates) {
          return candidates - static_cast<uint32_t>(most - most / kEvictedShare);
        });
      });
}

}  // namespace emblem::cuda
