// shard/cuda/route_keys.h - the distinct keys of a batch on a GPU and their holders: the kernels.
// All asynchronous.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "shard/message_layout.h"

namespace emblem::cuda {

struct BatchRef;

// Placement of the keys of a table.
struct OwnersRef {
  const uint16_t* rank_of_part;  // null: `self`
  int64_t rows;                  // end of the keys of a static table
  uint16_t self;
  bool is_static;
};

// The memory of a routed batch.
struct RouteRef {
  const OwnersRef* owners;  // by table
  // A hash map of the batch: pass << 32 | position of the first occurrence that came.
  unsigned long long* map;
  uint32_t map_mask;
  uint32_t pass;     // differs from that of the last batch in the same map; not 0
  uint2* holders;    // [positions] of leaders: rank, number among the keys of (rank, table)
  uint32_t* counts;  // [ranks, tables] distinct keys; zero before
  // [positions] of leaders of features with counts: their sum; zero before. Null: none has counts.
  uint32_t* sums;
  int32_t ranks;
  bool dedup;  // false: every occurrence is a leader
};

// Chooses one occurrence, the leader, to represent each distinct (table, key): unique_ranks of all
// positions are its position and the rank of the occurrence, or kNoRow for keys outside a static
// table; batch.counts of leaders are their occurrences. Needs batch.counts that are zero.
void route_keys(const Context& context, const BatchRef& batch, const RouteRef& route);

// Then, with the places of items by (rank, table): keys, and occurrences where `counts` are sent,
// into messages; batch.rows and batch.uniques become the places of rows. `rank_stride`: items from
// one rank's to the next.
struct WriteKeys {
  const ItemPlace* items;
  int64_t rank_stride;
  int64_t* keys;
  int32_t* counts;              // null: not sent
  const uint8_t* sends_counts;  // by table
};
void write_keys(const Context& context, const BatchRef& batch, const RouteRef& route,
                const WriteKeys& to);

// For features that have FeatureRef::absent: the flags of their keys, 0 where rows cannot be
// missing.
void spread_flags(const Context& context, const BatchRef& batch, const RouteRef& route,
                  const ItemPlace* items, int64_t rank_stride, const uint8_t* flags,
                  const uint8_t* can_miss);

// Adds the occurrences of keys whose flag is set to batch.feature_counts.
void count_missing(const Context& context, const BatchRef& batch, const RouteRef& route,
                   const ItemPlace* items, int64_t rank_stride, const uint8_t* flags,
                   const uint8_t* can_miss);

}  // namespace emblem::cuda
