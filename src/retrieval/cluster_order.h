// retrieval/cluster_order.h - rows in an order in which those that are near are together: what a
// tree of learned vectors is cut from.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device/context.h"
#include "retrieval/item_rows.h"

namespace emblem {

// Positions of the rows. Cut into `clusters` parts (core/math/part.h), and each of these again,
// ..., parts are the clusters of k-means by squared distance, balanced: each centroid but the last
// gets, of the rows that are left, those that are nearest to it compared with their nearest other
// one. The same for any number of threads. `placed` is told how many rows have their place.
std::vector<int64_t> cluster_order(const Context& context, const ItemRows& rows, int64_t clusters,
                                   uint64_t seed = 1,
                                   const std::function<void(int64_t placed)>& placed = {});

}  // namespace emblem
