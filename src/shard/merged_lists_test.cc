#include "shard/key_numbers.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::ElementsAre;

FeatureKeys list_of(const std::vector<int64_t>& keys, const std::vector<int32_t>& counts = {}) {
  return {.keys = {keys.data(), std::ssize(keys), 1},
          .counts = {counts.data(), std::ssize(counts), 1}};
}

class Merged : public testing::Test {
 protected:
  Merged() {
    lists_.merge({list_of(first_, {1, 2, 3}), list_of({}), list_of(second_, {10, 20, 30})}, slots_);
  }
  const std::vector<int64_t> first_ = {7, -1, 5}, second_ = {5, 9, 7};
  KeySlots slots_;
  MergedLists lists_;
};

TEST_F(Merged, AreNumberedByFirstOccurrence) {
  EXPECT_EQ(lists_.size(), 4);
  EXPECT_THAT(lists_.keys(), ElementsAre(7, -1, 5, 9));
}

TEST_F(Merged, AddUpCounts) { EXPECT_THAT(lists_.counts(), ElementsAre(31, 2, 13, 20)); }

TEST_F(Merged, SpreadPackAndSumValues) {
  const std::vector<float> distinct = {1, 2, 3, 4, 5, 6, 7, 8};  // two of each key
  std::vector<float> spread(6), packed(8), sums(8);
  lists_.spread(2, distinct.data(), 2, spread.data());
  EXPECT_THAT(spread, ElementsAre(5, 6, 7, 8, 1, 2));
  const std::vector<float> of_lists[] = {{1, 2, 3, 4, 5, 6}, {}, {10, 20, 30, 40, 50, 60}};
  const auto from = [&](size_t list) { return of_lists[list].data(); };
  lists_.pack(from, 2, packed.data());
  EXPECT_THAT(packed, ElementsAre(1, 2, 3, 4, 5, 6, 30, 40));
  lists_.sum(from, 2, sums.data());
  EXPECT_THAT(sums, ElementsAre(51, 62, 3, 4, 15, 26, 30, 40));
}

TEST_F(Merged, MayBeEmpty) {
  lists_.merge({list_of({}), list_of({})}, slots_);
  EXPECT_EQ(lists_.size(), 0);
}

}  // namespace
}  // namespace emblem
