#include "ps/tables/row_finder.h"

#include <gmock/gmock.h>

#include <set>

namespace emblem {
namespace {

uint64_t inverse_of(uint64_t odd) {
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// The key of which mix64 makes this.
int64_t key_with_mix(uint64_t mixed) {
  uint64_t key = mixed ^ (mixed >> 31) ^ (mixed >> 62);
  key *= inverse_of(0x94d049bb133111ebull);
  key = (key ^ (key >> 27) ^ (key >> 54)) * inverse_of(0xbf58476d1ce4e5b9ull);
  return static_cast<int64_t>(key ^ (key >> 30) ^ (key >> 60));
}

TEST(UniqueKeysTest, KeysHaveTheirNumbersInOrderOfFirstOccurrence) {
  UniqueKeys unique;
  unique.clear(5);
  std::vector<uint32_t> numbers;
  for (const int64_t key : {7, -3, 7, 0, -3}) numbers.push_back(unique.add(key));
  EXPECT_THAT(numbers, testing::ElementsAre(0, 1, 0, 2, 1));
  EXPECT_THAT(unique.keys(), testing::ElementsAre(7, -3, 0));
  unique.clear(1);
  EXPECT_EQ(unique.add(0), 0u);
  EXPECT_THAT(unique.keys(), testing::ElementsAre(0));
}

// Otherwise a request of a few megabytes would be searched for minutes.
TEST(UniqueKeysTest, ClientsCannotChooseKeysThatShareASlot) {
  constexpr uint64_t kKeys = 4096;
  UniqueKeys unique;
  unique.clear(kKeys);
  std::set<size_t> slots;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const int64_t key = key_with_mix(i << 32);
    ASSERT_EQ(mix64(static_cast<uint64_t>(key)), i << 32);
    slots.insert(unique.first_slot(key));
  }
  EXPECT_GT(slots.size(), kKeys / 2);
}

}  // namespace
}  // namespace emblem
