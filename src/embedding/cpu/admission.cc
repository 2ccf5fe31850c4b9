#include "embedding/cpu/admission.h"

#include <algorithm>

#include "embedding/cpu/lowest.h"
#include "emblem/error.h"

namespace emblem {
namespace {

void drop_lowest(KeyIndex& counts, int64_t excess) {
  const auto for_each = [&](auto&& visit) {
    counts.for_each([&](int64_t key, uint32_t count) { visit(ScoredKey{count, key}); });
  };
  const ScoredKey last = kth_lowest(counts.size(), excess, for_each);
  std::vector<int64_t> dropped;
  dropped.reserve(excess);
  for_each([&](const ScoredKey& item) {
    if (item <= last) dropped.push_back(item.key);
  });
  for (const int64_t key : dropped) counts.erase(key);
}

}  // namespace

int64_t Admission::count(int64_t key, int64_t occurrences) {
  if (open()) return occurrences;
  KeyIndex& counts = counts_[bins_.of(key)];
  const uint32_t before = counts.find(key);
  const int64_t total = occurrences + (before == KeyIndex::kNone ? 0 : int64_t{before});
  if (total < threshold_) {
    counts.assign(key, static_cast<uint32_t>(total));
    return 0;
  }
  if (before != KeyIndex::kNone) counts.erase(key);
  return total;
}

void Admission::prune() {
  if (capacity_ == 0) return;
  for (KeyIndex& counts : counts_)
    if (counts.size() > capacity_) drop_lowest(counts, counts.size() - capacity_ + capacity_ / 20);
}

int64_t Admission::bytes() const {
  int64_t bytes = 0;
  for (const KeyIndex& counts : counts_) bytes += counts.bytes();
  return bytes;
}

void Admission::clear() {
  for (KeyIndex& counts : counts_) counts.clear();
}

std::vector<KeyCount> Admission::sorted() const {
  std::vector<KeyCount> all;
  for (const KeyIndex& counts : counts_)
    counts.for_each([&](int64_t key, uint32_t count) { all.push_back({key, count}); });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return all;
}

void Admission::restore(std::span<const KeyCount> counts) {
  clear();
  if (open()) return;  // the threshold was lowered: the next occurrence admits
  for (const auto& [key, count] : counts) {
    EMBLEM_REQUIRE(count > 0, "admission: key ", key, " has the count ", count,
                   ", but counts begin at 1");
    counts_[bins_.of(key)].assign(key, static_cast<uint32_t>(std::min(count, threshold_ - 1)));
  }
}

}  // namespace emblem
