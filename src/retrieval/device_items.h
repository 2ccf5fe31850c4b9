// retrieval/device_items.h - items in the memory of a GPU, and exact searches in them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/device/context.h"
#include "retrieval/search.h"

namespace emblem::cuda {

// Thread-safe: one search runs at a time.
//
// A search multiplies blocks of items with all queries on tensor cores and compares the products
// with a threshold of each query in registers: scores are never stored. Thresholds come from
// samples of the items. What may be among the best is scored again in fp32, as on a CPU
// (ItemRows::score), so that both give the same answers. Where more items pass the threshold of a
// query than its buffer holds, the search of that query is repeated a part of the items at a time.
class DeviceItems {
 public:
  static constexpr int64_t kMostFound = 65536;  // k
  static constexpr int64_t kMostDim = 2048;

  // `bounds`: of each kBoundRows rows.
  DeviceItems(const Context& context, const ItemTable& items, std::span<const ScoreBound> bounds);
  ~DeviceItems();
  DeviceItems(const DeviceItems&) = delete;
  DeviceItems& operator=(const DeviceItems&) = delete;

  int64_t memory_bytes() const;

  // search_items() in these alone; `removed` as in SearchedSegment. Blocks until it is done.
  std::vector<std::vector<ScoredItem>> search(const Context& context, View<const float> queries,
                                              int64_t k, const ItemFilter& filter,
                                              const uint64_t* removed) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem::cuda
