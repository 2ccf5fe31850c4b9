#include "embedding/parts.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

int32_t reversed(int32_t bits) {
  int32_t result = 0;
  for (int32_t bit = 0; bit < kPartBits; ++bit)
    if (bits >> bit & 1) result |= 1 << (kPartBits - 1 - bit);
  return result;
}

TEST(Parts, OfStaticKeysAreTheirLowBitsReversed) {
  EXPECT_EQ(part_of_static_key(0), 0);
  EXPECT_EQ(part_of_static_key(1), 2048);
  EXPECT_EQ(part_of_static_key(2), 1024);
  for (int64_t key = 0; key < 3 * kParts; ++key)
    ASSERT_EQ(part_of_static_key(key), reversed(static_cast<int32_t>(key % kParts))) << key;
  EXPECT_EQ(part_of_static_key((int64_t{1} << 40) + 3), part_of_static_key(3));
}

// Plans, servers and files rely on these values.
TEST(Parts, OfHashedKeysNeverChange) {
  EXPECT_EQ(part_of_hashed_key(0), 2080);
  EXPECT_EQ(part_of_hashed_key(1), 2226);
  EXPECT_EQ(part_of_hashed_key(-1), 29);
  EXPECT_EQ(part_of_hashed_key(int64_t{1} << 62), 1113);
}

TEST(Parts, SpreadNeighbouringKeysEvenly) {
  for (const auto part_of : {part_of_static_key, part_of_hashed_key}) {
    std::vector<int64_t> keys(3);
    for (int64_t key = 0; key < 30000; ++key)
      for (int32_t holder = 0; holder < 3; ++holder)
        keys[static_cast<size_t>(holder)] += part_range_of(holder, 3).contains(part_of(key));
    for (const int64_t count : keys) EXPECT_NEAR(static_cast<double>(count), 10000, 300);
  }
}

TEST(Parts, OfSmallStaticTablesSpreadToo) {
  for (int32_t holder = 0; holder < 4; ++holder) {
    int64_t keys = 0;
    for (int64_t key = 0; key < 8; ++key)
      keys += part_range_of(holder, 4).contains(part_of_static_key(key));
    EXPECT_EQ(keys, 2) << holder;
  }
}

TEST(PartRange, OfAllHoldersCoverEveryPartOnce) {
  for (const int32_t count : {1, 2, 3, 7, 4095, 4096}) {
    int32_t next = 0;
    for (int32_t holder = 0; holder < count; ++holder) {
      const PartRange range = part_range_of(holder, count);
      EXPECT_EQ(range.first, next);
      EXPECT_GE(range.count(), kParts / count);
      EXPECT_LE(range.count(), kParts / count + 1);
      next = range.last;
    }
    EXPECT_EQ(next, kParts);
  }
  EXPECT_THROW(part_range_of(0, 0), Error);
  EXPECT_THROW(part_range_of(3, 3), Error);
  EXPECT_THROW(part_range_of(-1, 3), Error);
  EXPECT_THROW(part_range_of(0, kParts + 1), Error);
}

TEST(PartRange, IsReadAsItIsWritten) {
  EXPECT_EQ(parse_part_range("0-1364"), (PartRange{0, 1365}));
  EXPECT_EQ(parse_part_range("7"), (PartRange{7, 8}));
  for (const PartRange range : {PartRange{}, PartRange{5, 6}, PartRange{100, 4096}})
    EXPECT_EQ(parse_part_range(to_string(range)), range);
  EXPECT_EQ(to_string(PartRange{3, 3}), "none");
  EXPECT_EQ(parse_part_range("1/3"), part_range_of(0, 3));
  EXPECT_EQ(parse_part_range("3/3"), part_range_of(2, 3));
  EXPECT_EQ(parse_part_range("4096/4096"), (PartRange{4095, 4096}));
  EXPECT_EQ(to_string(std::vector<PartRange>{{0, 10}, {20, 21}}), "0-9, 20");
  for (const char* wrong : {"0/3", "4/3", "1/4097", "1/", "/3", "1/3/5", "4096", "", "-", "1-",
                            "-1", "3-2", "0-4096", "a", "1-2-3", "1 - 2", "0x1-3"})
    EXPECT_THROW(parse_part_range(wrong), Error) << wrong;
}

TEST(PartFilter, TakesKeysOfItsParts) {
  EXPECT_TRUE(PartFilter{}.takes_all());
  const PartFilter lower{{0, 2048}, false};
  EXPECT_FALSE(lower.takes_all());
  EXPECT_TRUE(lower.takes(2));
  EXPECT_FALSE(lower.takes(3));
  const PartFilter one{{part_of_hashed_key(77), part_of_hashed_key(77) + 1}, true};
  EXPECT_TRUE(one.takes(77));
  EXPECT_FALSE(one.takes(78));
}

TEST(MissingParts, AreTheGapsBetweenRanges) {
  EXPECT_THAT(missing_parts({}), ElementsAre(PartRange{}));
  EXPECT_THAT(missing_parts({{2000, 4096}, {0, 2000}}), IsEmpty());
  EXPECT_THAT(missing_parts({{10, 20}, {15, 18}, {30, 30}, {40, 4000}}),
              ElementsAre(PartRange{0, 10}, PartRange{20, 40}, PartRange{4000, 4096}));
}

}  // namespace
}  // namespace emblem
