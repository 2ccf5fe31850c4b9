#include "embedding/cpu/key_index.h"

#include <gmock/gmock.h>

#include <unordered_map>
#include <vector>

#include "core/math/random.h"
#include "embedding/cpu/index_probe.h"

namespace emblem {
namespace {

// Keys that other hash tables reserve, and keys with equal high or low halves.
const std::vector<int64_t> kExotic = {0,
                                      -1,
                                      1,
                                      -2,
                                      INT64_MIN,
                                      INT64_MAX,
                                      INT64_MIN + 1,
                                      int64_t{1} << 32,
                                      0x00000000ffffffff,
                                      static_cast<int64_t>(0xffffffff00000000ull)};

TEST(TagGroup, FindsEqualAndEmptyTagsAtEveryPosition) {
  for (int slot = 0; slot < kGroupSlots; ++slot) {
    alignas(16) uint8_t tags[kGroupSlots];
    std::fill_n(tags, kGroupSlots, 0x91);
    tags[slot] = 0xfe;
    EXPECT_EQ(TagGroup(tags).equal(0xfe).first(), slot);
    EXPECT_EQ(TagGroup(tags).equal(0x91).count(), kGroupSlots - 1);
    EXPECT_FALSE(TagGroup(tags).empty());
    tags[slot] = kEmptyTag;
    EXPECT_EQ(TagGroup(tags).empty().first(), slot);
  }
}

TEST(TagGroup, ListsTheEqualTagsInOrder) {
  alignas(16) uint8_t tags[kGroupSlots] = {};
  for (const int slot : {3, 4, 15}) tags[slot] = 0x80;
  std::vector<int> found;
  for (SlotSet same = TagGroup(tags).equal(0x80); same; same.drop_first())
    found.push_back(same.first());
  EXPECT_THAT(found, testing::ElementsAre(3, 4, 15));
}

TEST(KeyIndex, EveryKeyIsLegal) {
  KeyIndex index;
  for (const int64_t key : kExotic) EXPECT_EQ(index.find(key), KeyIndex::kNone);
  for (size_t i = 0; i < kExotic.size(); ++i) index.insert(kExotic[i], static_cast<uint32_t>(i));
  for (size_t i = 0; i < kExotic.size(); ++i) EXPECT_EQ(index.find(kExotic[i]), i);
  for (const int64_t key : kExotic) EXPECT_TRUE(index.erase(key));
  EXPECT_EQ(index.size(), 0);
}

TEST(KeyIndex, InsertKeepsTheFirstValueAndAssignTheLast) {
  KeyIndex index;
  EXPECT_EQ(index.insert(7, 1), 1u);
  EXPECT_EQ(index.insert(7, 2), 1u);
  index.assign(7, 3);
  index.assign(8, 4);
  EXPECT_EQ(index.find(7), 3u);
  EXPECT_EQ(index.find(8), 4u);
  EXPECT_EQ(index.size(), 2);
}

// Random insertions, assignments and erasures of a changing number of keys, against
// std::unordered_map.
class IndexOracle : public testing::TestWithParam<int64_t> {};

TEST_P(IndexOracle, AgreesWithAPlainMapOverRandomOperations) {
  const int64_t universe = GetParam();
  Random random{.seed = 5, .stream = static_cast<uint64_t>(universe)};
  KeyIndex index;
  std::unordered_map<int64_t, uint32_t> oracle;
  const auto draw = [&] {
    const uint64_t r = random.below(universe);
    if (r < kExotic.size()) return kExotic[r];
    return r % 2 ? static_cast<int64_t>(r) : static_cast<int64_t>(mix64(r));
  };
  for (int i = 0; i < 600000; ++i) {
    const int64_t key = draw();
    const auto value = static_cast<uint32_t>(random.below(1000));
    const bool shrink = (i / 100000) % 2 == 1;  // phases of growing and of shrinking
    switch (random.below(4)) {
      case 0:
        ASSERT_EQ(index.insert(key, value), oracle.try_emplace(key, value).first->second);
        break;
      case 1:
        if (!shrink) index.assign(key, value), oracle[key] = value;
        break;
      case 2:
        if (shrink) {
          ASSERT_EQ(index.erase(key), oracle.erase(key) == 1);
        }
        break;
      case 3: {
        const auto found = oracle.find(key);
        ASSERT_EQ(index.find(key), found == oracle.end() ? KeyIndex::kNone : found->second);
      }
    }
    ASSERT_EQ(index.size(), static_cast<int64_t>(oracle.size()));
  }
  int64_t visited = 0;
  index.for_each([&](int64_t key, uint32_t value) {
    ++visited;
    const auto found = oracle.find(key);
    ASSERT_TRUE(found != oracle.end() && found->second == value) << key;
  });
  EXPECT_EQ(visited, static_cast<int64_t>(oracle.size()));
}

INSTANTIATE_TEST_SUITE_P(, IndexOracle, testing::Values(20, 1000, 200000));

TEST(KeyIndex, FindsManyAsItFindsOneAlsoWhileGrowing) {
  KeyIndex index;
  Random random{.seed = 1};
  std::vector<int64_t> keys;
  bool was_growing = false;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 97; ++i) {
      keys.push_back(static_cast<int64_t>(random.bits()));
      index.insert(keys.back(), static_cast<uint32_t>(keys.size()));
    }
    was_growing |= index.growing();
    std::vector<int64_t> asked;
    for (int i = 0; i < 77; ++i) {
      asked.push_back(i % 3 ? keys[random.below(keys.size())]
                            : static_cast<int64_t>(random.bits()));
    }
    std::vector<uint32_t> values(asked.size());
    index.find(asked, values);
    for (size_t i = 0; i < asked.size(); ++i) ASSERT_EQ(values[i], index.find(asked[i]));
  }
  EXPECT_TRUE(was_growing);
}

TEST(KeyIndex, NoInsertionMovesMoreThanAFewGroups) {
  KeyIndex index;
  uint64_t worst = 0;
  for (int64_t key = 0; key < 500000; ++key) {
    const uint64_t before = index.moved_groups();
    index.insert(key, 1);
    worst = std::max(worst, index.moved_groups() - before);
  }
  EXPECT_GT(index.moved_groups(), 30000u);  // it did grow
  EXPECT_LE(worst, 4u);
  index.move_groups(1 << 20);
  EXPECT_FALSE(index.growing());
  for (int64_t key = 0; key < 500000; ++key) ASSERT_EQ(index.find(key), 1u);
}

TEST(KeyIndex, ErasingAndInsertingForeverNeedsNoMoreMemory) {
  KeyIndex index(10000);
  const int64_t bytes = index.bytes();
  Random random{.seed = 3};
  std::vector<int64_t> alive;
  for (int64_t i = 0; i < 10000; ++i) alive.push_back(static_cast<int64_t>(random.bits()));
  for (const int64_t key : alive) index.insert(key, 1);
  for (int i = 0; i < 300000; ++i) {
    const uint64_t victim = random.below(alive.size());
    ASSERT_TRUE(index.erase(alive[victim]));
    alive[victim] = static_cast<int64_t>(random.bits());
    index.insert(alive[victim], 1);
  }
  EXPECT_EQ(index.bytes(), bytes);
  // What probing relies on: all groups that a key has passed are full.
  const IndexRef ref = index.ref();
  for (const int64_t key : alive) {
    const uint64_t hash = IndexRef::hash(key);
    const uint64_t slot = probe(ref, hash, key);
    ASSERT_NE(slot, kNoSlot);
    for (uint64_t group = ref.home(hash); group != slot / kGroupSlots; group = ref.next(group)) {
      ASSERT_FALSE(TagGroup(ref.tags + group * kGroupSlots).empty());
    }
  }
}

TEST(KeyIndex, ForgetsAllKeys) {
  KeyIndex index;
  for (int64_t key = 0; key < 1000; ++key) index.insert(key, 1);
  index.forget();
  EXPECT_EQ(index.size(), 0);
  for (int64_t key = 0; key < 1000; ++key) ASSERT_EQ(index.find(key), KeyIndex::kNone);
  index.insert(5, 2);
  index.clear();
  EXPECT_EQ(index.find(5), KeyIndex::kNone);
}

}  // namespace
}  // namespace emblem
