#include "embedding/row_share.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/math/random.h"

namespace emblem {
namespace {

// Every key of a table whose part is held has a row of its own, and local_rows() has room for it.
void expect_bijection(int64_t rows, PartRange held) {
  const int64_t room = local_rows(rows, held);
  std::vector<bool> taken(static_cast<size_t>(room));
  int64_t keys = 0;
  for (int64_t key = 0; key < rows; ++key) {
    if (!held.contains(part_of_static_key(key))) continue;
    const int64_t row = held.is_everything() ? key : local_row(key, held);
    ASSERT_GE(row, 0) << key;
    ASSERT_LT(row, room) << key;
    ASSERT_FALSE(taken[static_cast<size_t>(row)]) << key;
    taken[static_cast<size_t>(row)] = true;
    if (!held.is_everything()) {
      ASSERT_EQ(key_of_local_row(row, held), key);
    }
    ++keys;
  }
  EXPECT_EQ(keys_held(rows, held), keys);
  EXPECT_LE(room, rows + kParts);
}

TEST(RowShare, GivesEveryHeldKeyARowOfItsOwn) {
  Random random{.seed = 8};
  for (const int64_t rows : {1, 2, 7, 4095, 4096, 4097, 10007, 50000}) {
    for (const PartRange held : {PartRange{}, PartRange{0, 1}, PartRange{4095, 4096},
                                 PartRange{17, 17}, PartRange{100, 4096}})
      if (held.count() > 0) expect_bijection(rows, held);
    for (int i = 0; i < 10; ++i) {
      const auto first = static_cast<int32_t>(random.below(kParts));
      const auto count = static_cast<int32_t>(random.below(static_cast<uint64_t>(kParts - first)));
      expect_bijection(rows, {first, first + 1 + count});
    }
  }
}

TEST(RowShare, DividesATableAmongRanksWithoutRest) {
  for (const int32_t ranks : {1, 2, 3, 8, 100, kParts}) {
    for (const int64_t rows : {1, 100, 4096, 123457}) {
      int64_t keys = 0;
      for (int32_t rank = 0; rank < ranks; ++rank)
        keys += keys_held(rows, part_range_of(rank, ranks));
      EXPECT_EQ(keys, rows) << ranks;
    }
  }
}

TEST(RowShare, OfNoPartsIsEmpty) {
  EXPECT_EQ(local_rows(100, {5, 5}), 0);
  EXPECT_EQ(keys_held(100, {5, 5}), 0);
}

}  // namespace
}  // namespace emblem
