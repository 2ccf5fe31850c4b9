// embedding/cuda/lookup/device_batch.cuh - a batch of keys as the kernels of a lookup see it.
//
// The keys of all features are numbered consecutively: a position is the first one of a feature
// plus the index of the key in it. Features are in the order of their classes (device_lookup.cu),
// so that the positions of a class are one range, and so are its distinct rows and its segments.
#pragma once

#include "embedding/cuda/lookup/out_ref.cuh"
#include "embedding/cuda/lookup/uncached_rows.cuh"

namespace emblem::cuda {

inline constexpr int kMostFeatures = 128;
inline constexpr int kTile = 32;  // positions per warp

struct FeatureRef {
  const int64_t* keys;
  const int32_t* offsets;  // null: one key per bag
  const float* weights;    // null: all 1
  const int64_t* places;   // null: the bags are rows of the output
  const int32_t* counts;   // null: all 1
  uint8_t* absent;         // or null
  uint32_t first;          // position of the first key
  uint32_t count;          // keys
  uint32_t first_tile;     // first tile of kTile positions; a tile never spans two features
  int32_t column;          // column of the output
  int16_t table;
  int8_t cls;
  uint8_t number;  // number of the feature in the caller's order
  Pooling pooling;
};
static_assert(kMostFeatures <= 256);

// The element where the gradient of key `index` begins, of a feature with one key per bag.
__device__ inline int64_t place_of(const FeatureRef& feature, uint32_t index, int64_t width) {
  return feature.places != nullptr ? feature.places[index] : index * width + feature.column;
}

// Counts of a feature since they were last read: see Lookup::take_counts.
struct FeatureCounts {
  unsigned long long values, missing;
};

// A distinct row of the batch.
struct UniqueRow {
  uint32_t row;
  uint32_t table;
};
// An occurrence of a distinct row, in its segment.
struct __align__(16) Occurrence {
  uint32_t unique;
  uint32_t row;
  int64_t source_table;

  __device__ static Occurrence of(uint32_t unique, uint32_t row, int64_t source, int table) {
    return {unique, row, source * 65536 + table};
  }
  // The element where its gradient begins.
  __device__ int64_t source() const { return source_table >> 16; }
  __device__ int table() const { return static_cast<int>(source_table & 65535); }
};
struct Segment {
  uint32_t begin, end;  // range of its occurrences
};

// Counters in device memory. The last kernel of a training forward increments `pass` and resets the
// others, so that no kernel is needed to begin a pass.
inline constexpr int kMostClasses = 16;
struct BatchCounters {
  uint32_t pass;                          // from 1
  uint32_t missing;                       // occurrences of keys without a row
  uint32_t unique[kMostClasses];          // distinct rows, and numbers that were lost in races
  uint32_t occurrences[2][kMostClasses];  // by pass & 1: backward reads those of the last pass
};

struct BatchRef {
  const DeviceTableRef* tables;
  int32_t table_count;
  int32_t features;
  int32_t classes;
  uint32_t tiles;
  uint32_t bags;
  int64_t width;
  OutRef out;
  int32_t place_scale;  // elements of the output to one of FeatureRef::places

  uint32_t* rows;           // [positions] the row of a key before the pass, or kNoRow
  uint2* unique_ranks;      // [positions] number of the distinct row, rank among its occurrences
  uint32_t* bag_of;         // [positions] of features with bags
  float* coefficients;      // [positions], or null: all 1
  uint32_t* missing;        // positions of keys without a row
  UniqueRow* uniques;       // [positions]
  uint32_t* counts;         // [positions] occurrences of a distinct row; zero between passes
  Segment* segments;        // [positions]
  Occurrence* occurrences;  // [positions]
  float* sorted_coefficients;
  BatchCounters* counters;
  FeatureCounts* feature_counts;       // [features] by FeatureRef::number
  UncachedRows uncached;               // with GatherMode::kEvalCached
  uint32_t class_first[kMostClasses];  // position; a multiple of kTile
  uint32_t class_count[kMostClasses];  // positions
  uint32_t class_tile[kMostClasses + 1];
  FeatureRef feature[kMostFeatures];

  // The element of the output where its row begins.
  __device__ int64_t out_place_of(const FeatureRef& of, uint32_t index) const {
    return of.places != nullptr ? of.places[index] * place_scale : index * width + of.column;
  }

  // The feature that a tile, or a position, belongs to.
  __device__ const FeatureRef& feature_of_tile(uint32_t tile) const {
    return last_from<&FeatureRef::first_tile>(tile);
  }
  __device__ const FeatureRef& feature_of_position(uint32_t position) const {
    return last_from<&FeatureRef::first>(position);
  }

 private:
  // The last feature that begins at or before `at`.
  template <uint32_t FeatureRef::*kBegin>
  __device__ const FeatureRef& last_from(uint32_t at) const {
    int low = 0, high = features - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (feature[middle].*kBegin <= at)
        low = middle;
      else
        high = middle - 1;
    }
    return feature[low];
  }
};

// Updates the score of a row for `count` occurrences in a pass. `first`: for the first of them.
__device__ inline void raise_score(const DeviceTableRef& table, uint32_t row, uint32_t count,
                                   bool first) {
  if (table.is_static()) return;
  int64_t* score = &table.keys.meta[row].score;
  switch (table.eviction) {
    case Eviction::kLru:
    case Eviction::kStep:
      if (first) *score = table.clocks->clock + 1;
      break;
    case Eviction::kLfu:
      atomicAdd(reinterpret_cast<unsigned long long*>(score),
                static_cast<unsigned long long>(count));
      break;
    case Eviction::kCustom:
      if (first) *score = table.clocks->next_score;
      break;
    case Eviction::kNone:
      break;
  }
}

// Assigns a row its number among the distinct rows of the batch and adds `count` occurrences of it.
// `number` is an unused one; it remains without occurrences when another thread assigns one first.
// Returns the number of the row; *rank is the rank of the first of these occurrences.
__device__ inline uint32_t mark_row(const BatchRef& batch, const FeatureRef& feature, uint32_t row,
                                    unsigned long long seen, uint32_t number, uint32_t count,
                                    uint32_t* rank) {
  const DeviceTableRef& table = batch.tables[feature.table];
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  bool won = false;
  if (static_cast<uint32_t>(seen >> 32) != version) {
    const auto mine = static_cast<unsigned long long>(version) << 32 | number;
    const unsigned long long before = atomicCAS(table.mark(row), seen, mine);
    won = before == seen;
    batch.uniques[number] = {won ? row : kNoRow, static_cast<uint32_t>(feature.table)};
    seen = won ? mine : before;
  }
  *rank = atomicAdd(&batch.counts[static_cast<uint32_t>(seen)], count);
  raise_score(table, row, feature.counts != nullptr ? 0 : count, won);
  return static_cast<uint32_t>(seen);
}

// For a key that stands for several, beside mark_row.
__device__ inline void raise_score_by_count(const BatchRef& batch, const FeatureRef& feature,
                                            uint32_t index, uint32_t row) {
  if (feature.counts == nullptr) return;
  raise_score(batch.tables[feature.table], row, static_cast<uint32_t>(feature.counts[index]),
              false);
}

// Counts a warp's keys of one feature in evaluation. `missing`: lanes whose key has no row.
__device__ inline void count_keys(const BatchRef& batch, const FeatureRef& feature,
                                  bool first_of_feature, uint32_t missing) {
  if (threadIdx.x % 32 != 0) return;
  FeatureCounts& counts = batch.feature_counts[feature.number];
  if (first_of_feature) atomicAdd(&counts.values, static_cast<unsigned long long>(feature.count));
  if (missing != 0) atomicAdd(&counts.missing, static_cast<unsigned long long>(__popc(missing)));
}

// Lists the keys of a warp that have no row. `index` of lanes without a key is at least
// feature.count.
__device__ inline void list_missing(const BatchRef& batch, const FeatureRef& feature,
                                    uint32_t index, uint32_t row) {
  const int lane = threadIdx.x % 32;
  const bool absent = index < feature.count && row == kNoRow;
  if (absent) batch.unique_ranks[feature.first + index] = {kNoRow, 0};
  const uint32_t missing = __ballot_sync(~0u, absent && !batch.tables[feature.table].is_static());
  if (missing == 0) return;
  uint32_t first = 0;
  if (lane == 0)
    first = atomicAdd(&batch.counters->missing, static_cast<uint32_t>(__popc(missing)));
  first = __shfl_sync(~0u, first, 0);
  if (missing >> lane & 1)
    batch.missing[first + __popc(missing & ((1u << lane) - 1))] = feature.first + index;
}

// Lists the missing keys and marks the rows of a warp of keys of one feature; one lane acts for all
// with the same row.
__device__ inline void mark_rows(const BatchRef& batch, const FeatureRef& feature, uint32_t index,
                                 uint32_t row) {
  const DeviceTableRef& table = batch.tables[feature.table];
  const int lane = threadIdx.x % 32;
  const uint32_t below = (1u << lane) - 1;
  list_missing(batch, feature, index, row);
  const uint32_t present = __ballot_sync(~0u, row != kNoRow);
  if (row == kNoRow) return;
  const uint32_t same = __match_any_sync(present, row);
  const int leader = __ffs(same) - 1;
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  const unsigned long long seen = lane == leader ? __ldcg(table.mark(row)) : 0;
  const bool first = lane == leader && static_cast<uint32_t>(seen >> 32) != version;
  const uint32_t firsts = __ballot_sync(present, first);
  uint32_t number = 0, unique = 0, rank = 0;
  if (firsts != 0) {
    const int taker = __ffs(firsts) - 1;
    if (lane == taker)
      number =
          atomicAdd(&batch.counters->unique[feature.cls], static_cast<uint32_t>(__popc(firsts)));
    number = batch.class_first[feature.cls] + __shfl_sync(present, number, taker) +
             __popc(firsts & below);
  }
  if (lane == leader)
    unique =
        mark_row(batch, feature, row, seen, number, static_cast<uint32_t>(__popc(same)), &rank);
  unique = __shfl_sync(same, unique, leader);
  rank = __shfl_sync(same, rank, leader) + __popc(same & below);
  raise_score_by_count(batch, feature, index, row);
  batch.unique_ranks[feature.first + index] = {unique, rank};
}

}  // namespace emblem::cuda
