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

// What the kernels of a pass agree on for a row: its number among the distinct rows of the batch.
// `number` is one that nobody has; it stays without occurrences where another thread is faster.
// Returns the number, and adds `count` occurrences, the last at `last`; *rank is the first's.
__device__ inline uint32_t mark_row(const BatchRef& batch, const FeatureRef& feature, uint32_t row,
                                    unsigned long long seen, uint32_t number, uint32_t count,
                                    uint32_t last, uint32_t* rank) {
  const DeviceTableRef& table = batch.tables[feature.table];
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  if (static_cast<uint32_t>(seen >> 32) != version) {
    const auto mine = static_cast<unsigned long long>(version) << 32 | number;
    const unsigned long long before = atomicCAS(table.mark(row), seen, mine);
    const bool won = before == seen;
    batch.uniques[number] = {won ? row : kNoRow, static_cast<uint32_t>(feature.table)};
    seen = won ? mine : before;
  }
  *rank = atomicAdd(&batch.counts[static_cast<uint32_t>(seen)], count);
  raise_score(table, row, last, count);
  return static_cast<uint32_t>(seen);
}

}  // namespace emblem::cuda
