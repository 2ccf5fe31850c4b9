#include "embedding/cpu/lowest.h"

#include <gtest/gtest.h>

#include "core/math/random.h"

namespace emblem {
namespace {

std::vector<ScoredKey> random_items(int64_t count, uint64_t scores, uint64_t seed) {
  Random random{.seed = seed};
  std::vector<ScoredKey> items;
  for (int64_t i = 0; i < count; ++i) {
    items.push_back({static_cast<int64_t>(random.below(scores)), static_cast<int64_t>(mix64(i))});
  }
  return items;
}

void expect_border(std::vector<ScoredKey> items, int64_t k) {
  const ScoredKey border = kth_lowest(static_cast<int64_t>(items.size()), k, [&](auto&& visit) {
    for (const ScoredKey& item : items) visit(item);
  });
  std::nth_element(items.begin(), items.begin() + (k - 1), items.end());
  EXPECT_EQ(border, items[k - 1]) << items.size() << " items, k = " << k;
}

TEST(KthLowest, IsWhatSortingSaysForFewItems) {
  for (const int64_t k : {1, 2, 500, 999, 1000}) expect_border(random_items(1000, 30, 1), k);
}

TEST(KthLowest, IsWhatSortingSaysForMillionsOfItems) {
  const int64_t count = 1500000;
  for (const uint64_t scores : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 40}) {
    const auto items = random_items(count, scores, scores);
    for (const int64_t k : {int64_t{1}, count / 20, count - 1, count}) expect_border(items, k);
  }
}

TEST(KthLowest, IsExactEvenIfTheSampleMisleads) {
  auto items = random_items(1500000, 1000, 9);
  const int64_t stride = static_cast<int64_t>(items.size()) / (1 << 16);
  for (size_t i = 0; i < items.size(); i += stride)
    items[i].score = 5000;  // all that a sample sees
  expect_border(items, 75000);
}

}  // namespace
}  // namespace emblem
