// retrieval/search.h - the best items of queries, as one fused product and selection.
//
// A scan computes scores of blocks of items with all queries by the tile kernels, and compares them
// with a threshold of each query while they are in the cache; scores are never stored. What may be
// among the best k is scored again in fp32 (ItemRows::score), so that results are exact: the same
// for any batch of queries, number of threads and CPU. On a GPU: retrieval/device_items.h.
#pragma once

#include <span>
#include <vector>

#include "core/device/context.h"
#include "retrieval/candidates.h"
#include "retrieval/list_bounds.h"
#include "retrieval/segment.h"

namespace emblem {

// Items to search in. All segments have the same kernel.
struct SearchedSegment {
  const ItemSegment* segment = nullptr;
  const uint64_t* removed = nullptr;  // a bit for each row that is not there; null: none
};

// Which items may be found.
struct ItemFilter {
  uint64_t attributes = 0;  // bits that an item must have
  // Ascending ids that are not found, for each query; empty: none for all queries.
  std::span<const std::vector<int64_t>> exclude;
};

// The best k (at least 1) of each row of `queries`, in order; fewer where fewer can be found.
// Queries are finite and not longer than kLongestVector.
std::vector<std::vector<ScoredItem>> search_items(const Context& context,
                                                  std::span<const SearchedSegment> segments,
                                                  View<const float> queries, int64_t k,
                                                  const ItemFilter& filter);

// The lists of the first segment that are searched: their numbers are the ids of of_query[query],
// with the scores of their centroids.
struct Probes {
  std::span<const std::vector<ScoredItem>> of_query;
  const ListBounds& bounds;
};

// The same where of the first segment only some lists are searched, without those that by their
// bounds have none of the best items.
std::vector<std::vector<ScoredItem>> search_lists(const Context& context,
                                                  std::span<const SearchedSegment> segments,
                                                  View<const float> queries, int64_t k,
                                                  const ItemFilter& filter, const Probes& probes);

}  // namespace emblem
