// embedding/cuda/select_lowest.cuh - eviction of exactly the k lowest (score, key) of a key space,
// by a cooperative kernel.
//
// A radix selection from the top: each round counts the candidates by the next 11 bits, after the
// bits that all scores share. Scores that are clocks or small counts need one or two rounds, ties
// up to three more on the keys.
#pragma once

#include <cooperative_groups.h>

#include "embedding/cuda/key_space.cuh"

namespace emblem::cuda {

inline constexpr int kDigitBits = 11;
inline constexpr int kBins = 1 << kDigitBits;
inline constexpr int kRounds = 12;

// In device memory; `histograms` is zero before and after.
struct SelectScratch {
  uint32_t histograms[kRounds][kBins];
  unsigned long long lowest, highest;  // score
  uint32_t candidates;
};

// Ordered as (score, key) are.
struct Rank {
  uint64_t score, key;
  __device__ bool at_most(const Rank& other) const {
    return score < other.score || (score == other.score && key <= other.key);
  }
};
__device__ inline uint64_t as_rank(int64_t value) {
  return static_cast<uint64_t>(value) ^ 1ull << 63;
}

// Whether a row may be evicted: it is in use and the pass `version` did not touch it.
__device__ inline bool is_evictable(const RowMeta& meta, uint32_t version) {
  return meta.score != kUnusedScore && static_cast<uint32_t>(meta.mark >> 32) != version;
}

// A block's share of the rows [0, fresh).
template <class Visit>
__device__ void for_each_row(const KeySpace& keys, Visit&& visit) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t row = blockIdx.x * blockDim.x + threadIdx.x; row < keys.counters->fresh;
       row += step)
    visit(keys.meta[row], row);
}

// Candidates and the range of their scores. Whole grid; ends with a barrier.
__device__ inline void count_candidates(const KeySpace& keys, uint32_t version,
                                        SelectScratch* scratch,
                                        cooperative_groups::grid_group grid) {
  if (grid.thread_rank() == 0) {
    scratch->lowest = ~0ull;
    scratch->highest = 0;
    scratch->candidates = 0;
  }
  grid.sync();
  uint64_t low = ~0ull, high = 0;
  uint32_t count = 0;
  for_each_row(keys, [&](const RowMeta& meta, uint32_t) {
    if (!is_evictable(meta, version)) return;
    low = min(low, as_rank(meta.score));
    high = max(high, as_rank(meta.score));
    ++count;
  });
  for (int step = 16; step > 0; step /= 2) {
    low = min(low, __shfl_xor_sync(~0u, low, step));
    high = max(high, __shfl_xor_sync(~0u, high, step));
  }
  count = __reduce_add_sync(~0u, count);
  if (threadIdx.x % 32 == 0 && count != 0) {
    atomicMin(&scratch->lowest, static_cast<unsigned long long>(low));
    atomicMax(&scratch->highest, static_cast<unsigned long long>(high));
    atomicAdd(&scratch->candidates, count);
  }
  grid.sync();
}

// The bin of the k-th lowest, and the counts of lower bins and of this one. By the first warp of a
// block: each lane sums 64 bins, then one lane searches its own.
__device__ inline void choose_bin(const uint32_t* bins, uint32_t k, uint32_t* chosen,
                                  uint32_t* below, uint32_t* inside) {
  if (threadIdx.x >= 32) return;
  constexpr int kEach = kBins / 32;
  uint32_t sum = 0;
  for (int i = 0; i < kEach; ++i) sum += __ldcg(&bins[threadIdx.x * kEach + i]);
  uint32_t before = sum;
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, before, step);
    if (static_cast<int>(threadIdx.x) >= step) before += other;
  }
  before -= sum;
  if (before >= k || k > before + sum) return;
  int bin = static_cast<int>(threadIdx.x) * kEach;
  for (; before + __ldcg(&bins[bin]) < k; ++bin) before += __ldcg(&bins[bin]);
  *chosen = static_cast<uint32_t>(bin);
  *below = before;
  *inside = __ldcg(&bins[bin]);
}

// After count_candidates: the k-th lowest, 1 <= k <= candidates. Whole grid.
__device__ inline Rank kth_lowest(const KeySpace& keys, uint32_t version, uint32_t k,
                                  SelectScratch* scratch, cooperative_groups::grid_group grid) {
  __shared__ uint32_t histogram[kBins];
  __shared__ uint32_t chosen, below, inside;
  const uint64_t differing = scratch->lowest ^ scratch->highest;
  // Bits below `bit` of the current word are still open.
  int bit = differing == 0 ? 0 : 64 - __clzll(static_cast<long long>(differing));
  bool on_keys = bit == 0;
  Rank prefix{bit >= 64 ? 0 : scratch->lowest >> bit << bit, 0};
  if (on_keys) {
    prefix.score = scratch->lowest;
    bit = 64;
  }
  int round = 0;
  for (;; ++round) {
    const int shift = max(0, bit - kDigitBits);
    for (int i = threadIdx.x; i < kBins; i += blockDim.x) histogram[i] = 0;
    __syncthreads();
    for_each_row(keys, [&](const RowMeta& meta, uint32_t) {
      if (!is_evictable(meta, version)) return;
      const uint64_t score = as_rank(meta.score), key = as_rank(meta.key);
      const uint64_t word = on_keys ? key : score, known = on_keys ? prefix.key : prefix.score;
      if (on_keys && score != prefix.score) return;
      if (bit < 64 && (word ^ known) >> bit != 0) return;
      atomicAdd(&histogram[(word >> shift) & ((1u << (bit - shift)) - 1)], 1u);
    });
    __syncthreads();
    uint32_t* total = scratch->histograms[round];
    for (int i = threadIdx.x; i < kBins; i += blockDim.x) {
      if (histogram[i] != 0) atomicAdd(&total[i], histogram[i]);
    }
    grid.sync();
    choose_bin(total, k, &chosen, &below, &inside);
    __syncthreads();
    uint64_t& known = on_keys ? prefix.key : prefix.score;
    known |= static_cast<uint64_t>(chosen) << shift;
    k -= below;
    const bool whole_bin = k == inside;
    bit = shift;
    __syncthreads();
    if (whole_bin) {  // everything that begins with this prefix is evicted
      if (bit > 0) known |= (1ull << bit) - 1;
      if (!on_keys) prefix.key = ~0ull;
      break;
    }
    if (bit == 0) {
      on_keys = true;  // keys differ, so the rounds on keys end with a whole bin
      bit = 64;
    }
  }
  grid.sync();
  for (uint32_t i = grid.thread_rank(); i < static_cast<uint32_t>((round + 1) * kBins);
       i += grid.num_threads())
    scratch->histograms[i / kBins][i % kBins] = 0;
  return prefix;
}

// Evicts the `count` lowest candidates. Whole grid, after count_candidates; ends with a barrier.
__device__ inline void evict_lowest(const KeySpace& keys, uint32_t version, uint32_t count,
                                    SelectScratch* scratch, cooperative_groups::grid_group grid) {
  const Rank last = kth_lowest(keys, version, count, scratch, grid);
  for_each_row(keys, [&](const RowMeta& meta, uint32_t row) {
    if (!is_evictable(meta, version)) return;
    if (!Rank{as_rank(meta.score), as_rank(meta.key)}.at_most(last)) return;
    if (keys.remove(meta.key, row)) keys.give_back(row);
  });
  if (grid.thread_rank() == 0) keys.counters->evicted += count;
  grid.sync();
}

}  // namespace emblem::cuda
