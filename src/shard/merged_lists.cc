#include "shard/merged_lists.h"

namespace emblem {

void MergedLists::merge(std::vector<FeatureKeys> lists, KeySlots& slots) {
  lists_ = std::move(lists);
  std::vector<const FeatureKeys*> pointers;
  for (const FeatureKeys& list : lists_) pointers.push_back(&list);
  numbers_.number(pointers, slots);
  counts_.assign(numbers_.keys().size(), 0);
  for (size_t l = 0; l < lists_.size(); ++l) {
    const View<const int32_t>& counts = lists_[l].counts;
    for (int64_t i = 0; i < counts.size(); ++i)
      counts_[numbers_.numbers(l)[static_cast<size_t>(i)]] += counts.data[i];
  }
}

}  // namespace emblem
