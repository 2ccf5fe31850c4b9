#include "embedding/cpu/admission.h"

#include <algorithm>

#include "embedding/cpu/lowest.h"
#include "emblem/error.h"

namespace emblem {

int64_t Admission::count(int64_t key, int64_t occurrences) {
  if (open()) return occurrences;
  const uint32_t before = counts_.find(key);
  const int64_t total = occurrences + (before == KeyIndex::kNone ? 0 : int64_t{before});
  if (total < threshold_) {
    counts_.assign(key, static_cast<uint32_t>(total));
    return 0;
  }
  if (before != KeyIndex::kNone) counts_.erase(key);
  return total;
}

void Admission::prune() {
  if (capacity_ == 0 || counts_.size() <= capacity_) return;
  const int64_t excess = counts_.size() - capacity_ + capacity_ / 20;
  const auto for_each = [&](auto&& visit) {
    counts_.for_each([&](int64_t key, uint32_t count) { visit(ScoredKey{count, key}); });
  };
  const ScoredKey last = kth_lowest(counts_.size(), excess, for_each);
  std::vector<int64_t> dropped;
  dropped.reserve(excess);
  for_each([&](const ScoredKey& item) {
    if (item <= last) dropped.push_back(item.key);
  });
  for (const int64_t key : dropped) counts_.erase(key);
}

std::vector<KeyCount> Admission::sorted() const {
  std::vector<KeyCount> all;
  all.reserve(counts_.size());
  counts_.for_each([&](int64_t key, uint32_t count) { all.push_back({key, count}); });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return all;
}

void Admission::restore(std::span<const KeyCount> counts) {
  counts_.clear();
  if (open()) return;  // the threshold was lowered: the next occurrence admits
  for (const auto& [key, count] : counts) {
    EMBLEM_REQUIRE(count > 0, "admission: key ", key, " has the count ", count,
                   ", but counts begin at 1");
    counts_.assign(key, static_cast<uint32_t>(std::min(count, threshold_ - 1)));
  }
}

}  // namespace emblem
