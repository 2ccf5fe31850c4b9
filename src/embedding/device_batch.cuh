// embedding/device_batch.cuh - one batch of keys on its way through the kernels of a lookup.
//
// The keys of all features are numbered through: a position is a feature's first one plus the place
// of the key in it. Features are in the order of their classes (device_lookup.cu), so that the
// positions of a class are one range, and so are its distinct rows and its segments.
#pragma once

#include "embedding/device_table_ref.cuh"

namespace emblem::cuda {

inline constexpr int kMostFeatures = 128;
inline constexpr int kTile = 32;  // positions that a warp takes at a time

struct FeatureRef {
  const int64_t* keys;
  const int32_t* offsets;  // null: one key a bag
  const float* weights;    // null: all 1
  uint32_t first;          // position of the first key
  uint32_t count;          // keys
  uint32_t first_tile;     // of kTile positions; a tile never spans two features
  uint32_t before;         // keys of earlier features over the same table
  int32_t column;          // of the output
  int16_t table;
  int8_t cls;
  Pooling pooling;
};

// A distinct row of the batch.
struct UniqueRow {
  uint32_t row;
  uint32_t table;
};
// An occurrence of a distinct row, in its segment.
struct __align__(16) Occurrence {
  uint32_t unique;
  uint32_t source;  // where its gradient begins, in floats
  uint32_t row;
  uint32_t table;
};
struct Segment {
  uint32_t begin, end;  // of its occurrences
};

// Counters in device memory. The last kernel of a forward pass moves `pass` on and leaves the
// others ready for the next one, so that no kernel is needed to begin a pass.
inline constexpr int kMostClasses = 16;
struct BatchCounters {
  uint32_t pass;                          // from 1
  uint32_t missing;                       // occurrences of keys without a row
  uint32_t unique[kMostClasses];          // distinct rows, and numbers lost to races
  uint32_t occurrences[2][kMostClasses];  // by pass & 1: backward still reads the last pass's
};

struct BatchRef {
  const DeviceTableRef* tables;
  int32_t table_count;
  int32_t features;
  int32_t classes;
  uint32_t tiles;
  uint32_t bags;
  int64_t width;
  float* out;

  uint32_t* rows;          // [positions] the row that a key had before the pass, or kNoRow
  uint2* places;           // [positions] number of the distinct row, rank among its occurrences
  uint32_t* bag_of;        // [positions] of features with bags
  float* coefficients;     // [positions], or null: all 1
  uint32_t* missing;       // positions of keys without a row
  UniqueRow* uniques;      // [positions]
  uint32_t* counts;        // [positions] occurrences of a distinct row; zero between passes
  Segment* segments;       // [positions]
  Occurrence* occurrences; // [positions]
  float* sorted_coefficients;
  BatchCounters* counters;
  uint32_t class_first[kMostClasses];  // position; a multiple of kTile
  uint32_t class_count[kMostClasses];  // positions
  uint32_t class_tile[kMostClasses + 1];
  FeatureRef feature[kMostFeatures];

  // The feature that a tile belongs to.
  __device__ const FeatureRef& feature_of_tile(uint32_t tile) const {
    int low = 0, high = features - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (feature[middle].first_tile <= tile)
        low = middle;
      else
        high = middle - 1;
    }
    return feature[low];
  }
  __device__ const FeatureRef& feature_of_position(uint32_t position) const {
    int low = 0, high = features - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (feature[middle].first <= position)
        low = middle;
      else
        high = middle - 1;
    }
    return feature[low];
  }
};

// How a pass changes the score of a row: `count` occurrences in a warp, the last at `last` among
// the keys of the table.
__device__ inline void raise_score(const DeviceTableRef& table, uint32_t row, uint32_t last,
                                   uint32_t count) {
  if (table.is_static()) return;
  int64_t* score = &table.keys.meta[row].score;
  switch (table.eviction) {
    case Eviction::kLru:
      atomicMax(reinterpret_cast<long long*>(score),
                static_cast<long long>(table.clocks->clock + last + 1));
      break;
    case Eviction::kLfu:
      atomicAdd(reinterpret_cast<unsigned long long*>(score), static_cast<unsigned long long>(count));
      break;
    case Eviction::kStep:
      *score = table.clocks->clock + 1;
      break;
    case Eviction::kCustom:
      *score = table.clocks->next_score;
      break;
    case Eviction::kNone:
      break;
  }
}

// Gives the row at a position its number among the distinct rows of the batch, the position its
// rank among the occurrences of the row, and the row its score. Called by whole warps; lanes with
// kNoRow take no part.
__device__ inline void mark_row(const BatchRef& batch, const FeatureRef& feature, uint32_t place,
                                uint32_t row) {
  const uint32_t lanes = __ballot_sync(~0u, row != kNoRow);
  if (row == kNoRow) return;
  const DeviceTableRef& table = batch.tables[feature.table];
  const int lane = threadIdx.x % 32;
  const uint32_t same =
      __match_any_sync(lanes, static_cast<unsigned long long>(feature.table) << 32 | row);
  const uint32_t last = __reduce_max_sync(same, feature.before + place);
  const int leader = __ffs(same) - 1;

  unsigned long long* mark = table.mark(row);
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  unsigned long long seen = lane == leader ? __ldcg(mark) : 0;
  const bool first = lane == leader && static_cast<uint32_t>(seen >> 32) != version;
  const uint32_t firsts = __ballot_sync(lanes, first);
  if (first) {
    const uint32_t peers = __match_any_sync(firsts, feature.cls);
    const int taker = __ffs(peers) - 1;
    uint32_t number = 0;
    if (lane == taker)
      number = atomicAdd(&batch.counters->unique[feature.cls], static_cast<uint32_t>(__popc(peers)));
    number = batch.class_first[feature.cls] + __shfl_sync(peers, number, taker) +
             __popc(peers & ((1u << lane) - 1));
    const auto mine = static_cast<unsigned long long>(version) << 32 | number;
    const unsigned long long before = atomicCAS(mark, seen, mine);
    const bool won = before == seen;
    // Where another warp was faster, our number stays without occurrences.
    batch.uniques[number] = {won ? row : kNoRow, static_cast<uint32_t>(feature.table)};
    seen = won ? mine : before;
  }
  uint32_t rank = 0;
  if (lane == leader) {
    const auto count = static_cast<uint32_t>(__popc(same));
    rank = atomicAdd(&batch.counts[static_cast<uint32_t>(seen)], count);
    raise_score(table, row, last, count);
  }
  const auto unique = __shfl_sync(same, static_cast<uint32_t>(seen), leader);
  rank = __shfl_sync(same, rank, leader) + __popc(same & ((1u << lane) - 1));
  batch.places[feature.first + place] = {unique, rank};
}

}  // namespace emblem::cuda
