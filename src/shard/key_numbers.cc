#include "shard/key_numbers.h"

#include <algorithm>
#include <bit>

namespace emblem {

bool KeyNumbers::begin(std::span<const FeatureKeys* const> lists, int64_t rows, KeySlots& slots) {
  size_t total = 0;
  numbers_.resize(lists.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    const auto count = static_cast<size_t>(lists[i]->keys.size());
    numbers_[i].resize(count);
    total += count;
  }
  // A small table has a slot for every key, else there are two for each of the lists.
  const size_t hashed = std::bit_ceil(2 * total + 2);
  const bool direct = rows > 0 && static_cast<uint64_t>(rows) <= hashed;
  slots.assign(direct ? static_cast<size_t>(rows) : hashed, kFree);
  shift_ = 64 - std::countr_zero(hashed);
  // One more than there are keys: every key is written before it is known to be new.
  keys_.resize(total + 1);
  counts_.resize(total + 1);
  return direct;
}

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
