// embedding/cuda/table/select_lowest.cuh - finds the k-th lowest of (score, key) items, by a group
// of blocks of a cooperative kernel.
//
// A radix selection from the top: each round counts the candidates by the next 11 bits, after the
// bits that all scores share. Scores that are clocks or small counts need one or two rounds, ties
// up to three more on the keys.
//
// The items are those that for_each(visit) gives to the calling thread, as visit(score, key); all
// threads of the group together have each once, the same ones at every call. Keys differ.
#pragma once

#include "embedding/cuda/table/block_group.cuh"

namespace emblem::cuda {

inline constexpr int kDigitBits = 11;
inline constexpr int kDigitValues = 1 << kDigitBits;
inline constexpr int kRounds = 12;

// Memory on the device; zero before and after, but for the barrier.
struct SelectScratch {
  uint32_t histograms[kRounds][kDigitValues];
  unsigned long long not_lowest, highest;  // score; the complement of the lowest
  uint32_t candidates;
  uint32_t barrier;  // barrier of the group
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
__device__ inline Rank rank_of(int64_t score, int64_t key) {
  return {as_rank(score), as_rank(key)};
}

// Counts the items and finds the range of their scores. Whole group; ends with a barrier.
template <class ForEach>
__device__ void count_candidates(ForEach&& for_each, SelectScratch* scratch,
                                 const BlockGroup& group) {
  uint64_t low = ~0ull, high = 0;
  uint32_t count = 0;
  for_each([&](int64_t score, int64_t) {
    low = min(low, as_rank(score));
    high = max(high, as_rank(score));
    ++count;
  });
  for (int step = 16; step > 0; step /= 2) {
    low = min(low, __shfl_xor_sync(~0u, low, step));
    high = max(high, __shfl_xor_sync(~0u, high, step));
  }
  count = __reduce_add_sync(~0u, count);
  if (threadIdx.x % 32 == 0 && count != 0) {
    atomicMax(&scratch->not_lowest, static_cast<unsigned long long>(~low));
    atomicMax(&scratch->highest, static_cast<unsigned long long>(high));
    atomicAdd(&scratch->candidates, count);
  }
  group.sync();
}

// The digit of the k-th lowest, and the counts of lower digits and of this one. By the first warp
// of a block: each lane sums 64 digits, then one lane searches its own.
__device__ inline void choose_digit(const uint32_t* counts, uint32_t k, uint32_t* chosen,
                                    uint32_t* below, uint32_t* inside) {
  if (threadIdx.x >= 32) return;
  constexpr int kEach = kDigitValues / 32;
  uint32_t sum = 0;
  for (int i = 0; i < kEach; ++i) sum += __ldcg(&counts[threadIdx.x * kEach + i]);
  uint32_t before = sum;
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, before, step);
    if (static_cast<int>(threadIdx.x) >= step) before += other;
  }
  before -= sum;
  if (before >= k || k > before + sum) return;
  int digit = static_cast<int>(threadIdx.x) * kEach;
  for (; before + __ldcg(&counts[digit]) < k; ++digit) before += __ldcg(&counts[digit]);
  *chosen = static_cast<uint32_t>(digit);
  *below = before;
  *inside = __ldcg(&counts[digit]);
}

// After count_candidates: makes the scratch ready for the next selection. Whole group, after a
// barrier, before another one.
__device__ inline void clear_scratch(SelectScratch* scratch, int rounds, const BlockGroup& group) {
  if (group.thread_rank() == 0) {
    scratch->not_lowest = scratch->highest = 0;
    scratch->candidates = 0;
  }
  for (uint32_t i = group.thread_rank(); i < static_cast<uint32_t>(rounds * kDigitValues);
       i += group.num_threads())
    scratch->histograms[i / kDigitValues][i % kDigitValues] = 0;
}

// After count_candidates: the k-th lowest, 1 <= k <= candidates. Whole group; clears the scratch.
template <class ForEach>
__device__ Rank kth_lowest(ForEach&& for_each, uint32_t k, SelectScratch* scratch,
                           const BlockGroup& group) {
  __shared__ uint32_t histogram[kDigitValues];
  __shared__ uint32_t chosen, below, inside;
  const uint64_t lowest = ~__ldcg(&scratch->not_lowest);
  const uint64_t differing = lowest ^ __ldcg(&scratch->highest);
  // Bits below `bit` of the current word are still open.
  int bit = differing == 0 ? 0 : 64 - __clzll(static_cast<long long>(differing));
  bool on_keys = bit == 0;
  Rank prefix{bit >= 64 ? 0 : lowest >> bit << bit, 0};
  if (on_keys) {
    prefix.score = lowest;
    bit = 64;
  }
  int round = 0;
  for (;; ++round) {
    const int shift = max(0, bit - kDigitBits);
    for (int i = threadIdx.x; i < kDigitValues; i += blockDim.x) histogram[i] = 0;
    __syncthreads();
    for_each([&](int64_t score_of, int64_t key_of) {
      const uint64_t score = as_rank(score_of), key = as_rank(key_of);
      const uint64_t word = on_keys ? key : score, known = on_keys ? prefix.key : prefix.score;
      if (on_keys && score != prefix.score) return;
      if (bit < 64 && (word ^ known) >> bit != 0) return;
      atomicAdd(&histogram[(word >> shift) & ((1u << (bit - shift)) - 1)], 1u);
    });
    __syncthreads();
    uint32_t* total = scratch->histograms[round];
    for (int i = threadIdx.x; i < kDigitValues; i += blockDim.x) {
      if (histogram[i] != 0) atomicAdd(&total[i], histogram[i]);
    }
    group.sync();
    choose_digit(total, k, &chosen, &below, &inside);
    __syncthreads();
    uint64_t& known = on_keys ? prefix.key : prefix.score;
    known |= static_cast<uint64_t>(chosen) << shift;
    k -= below;
    const bool whole_digit = k == inside;
    bit = shift;
    __syncthreads();
    if (whole_digit) {  // everything that begins with this prefix is among the k lowest
      if (bit > 0) known |= (1ull << bit) - 1;
      if (!on_keys) prefix.key = ~0ull;
      break;
    }
    if (bit == 0) {
      on_keys = true;  // keys differ, so the rounds on keys end with a whole digit
      bit = 64;
    }
  }
  group.sync();
  clear_scratch(scratch, round + 1, group);
  return prefix;
}

}  // namespace emblem::cuda
