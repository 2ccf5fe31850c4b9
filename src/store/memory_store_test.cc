#include "store/memory_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> keys(end - begin);
  std::iota(keys.begin(), keys.end(), begin);
  return keys;
}

void insert(KvTable& table, const std::vector<int64_t>& keys) {
  table.insert(keys, std::vector<float>(keys.size() * table.dim(), 1.0f));
}

std::vector<uint8_t> found(const KvTable& table, const std::vector<int64_t>& keys) {
  std::vector<float> rows(keys.size() * table.dim());
  std::vector<uint8_t> found(keys.size());
  table.fetch(keys, rows, found);
  return found;
}

int64_t count_found(const KvTable& table, const std::vector<int64_t>& keys) {
  const auto flags = found(table, keys);
  return std::count(flags.begin(), flags.end(), 1);
}

MemoryStore limited(uint64_t margin, OverflowPolicy policy) {
  return MemoryStore({.partitions = 1, .overflow = {margin, policy, 0.5}});
}

TEST(MemoryStoreTest, OverflowLeavesTheTargetsShareOfTheMargin) {
  MemoryStore store = limited(100, OverflowPolicy::kEvictRandom);
  const auto table = store.open("t", 4);
  insert(*table, range(0, 100));
  EXPECT_EQ(table->size(), 100);
  insert(*table, {100});
  EXPECT_EQ(table->size(), 50);
  insert(*table, range(1000, 5000));
  EXPECT_LE(table->size(), 100);
  EXPECT_GE(table->size(), 50);
  EXPECT_EQ(count_found(*table, range(0, 101)) + count_found(*table, range(1000, 5000)),
            table->size());
}

TEST(MemoryStoreTest, RowsAreRoundedToTheTypeOfTheStore) {
  constexpr int64_t kDim = 21;
  std::vector<float> rows(300 * kDim);
  Random random{.seed = 2};
  for (float& value : rows) value = random.normal();
  std::fill_n(rows.begin(), kDim, 0.0f);
  for (int64_t d = 0; d < kDim; ++d) rows[kDim + d] = d % 2 == 0 ? 1e-38f : 0.0f;  // int8: zeros
  const double tolerance[] = {0, 1.0 / 2048, 1.0 / 256, 1.0 / 250};
  for (const DType type : {DType::kF32, DType::kF16, DType::kBf16, DType::kInt8}) {
    SCOPED_TRACE(name_of(type));
    MemoryStore store({.row_type = type});
    const auto table = store.open("t", kDim);
    table->insert(range(0, 300), rows);
    std::vector<float> fetched(rows.size()), iterated(rows.size());
    std::vector<uint8_t> found(300);
    EXPECT_EQ(table->fetch(range(0, 300), fetched, found), 300);
    for (size_t row = 0; row < 300; ++row) {
      const float* expected = rows.data() + row * kDim;
      float largest = 0;
      for (int64_t d = 0; d < kDim; ++d) largest = std::max(largest, std::abs(expected[d]));
      for (int64_t d = 0; d < kDim; ++d)
        ASSERT_NEAR(fetched[row * kDim + d], expected[d],
                    tolerance[static_cast<size_t>(type)] * largest + 1e-37f);
    }
    table->iterate(7, [&](std::span<const int64_t> keys, std::span<const float> some) {
      for (size_t i = 0; i < keys.size(); ++i)
        std::copy_n(some.data() + i * kDim, kDim, iterated.data() + keys[i] * kDim);
    });
    EXPECT_EQ(iterated, fetched);
    table->insert(range(0, 300), fetched);  // rounding what was rounded changes nothing
    std::vector<float> again(rows.size());
    table->fetch(range(0, 300), again, found);
    EXPECT_EQ(again, fetched);
  }
}

TEST(MemoryStoreTest, RandomEvictionTakesFromEverywhere) {
  MemoryStore store = limited(1000, OverflowPolicy::kEvictRandom);
  const auto table = store.open("t", 1);
  insert(*table, range(0, 1001));
  for (int64_t part = 0; part < 4; ++part) {
    EXPECT_NEAR(count_found(*table, range(part * 250, part * 250 + 250)), 125, 40);
  }
}

TEST(MemoryStoreTest, TheLeastUsedLeaveFirst) {
  MemoryStore store = limited(100, OverflowPolicy::kEvictLeastUsed);
  const auto table = store.open("t", 1);
  insert(*table, range(0, 100));
  for (int i = 0; i < 3; ++i) found(*table, range(40, 80));
  insert(*table, {100});
  EXPECT_EQ(table->size(), 50);
  EXPECT_EQ(count_found(*table, range(40, 80)), 40);
}

TEST(MemoryStoreTest, TheOldestLeaveFirst) {
  MemoryStore store = limited(100, OverflowPolicy::kEvictOldest);
  const auto table = store.open("t", 1);
  insert(*table, range(0, 30));
  insert(*table, range(30, 60));
  insert(*table, range(60, 100));
  found(*table, range(0, 10));  // used again: young
  insert(*table, {100});
  EXPECT_EQ(table->size(), 50);
  EXPECT_EQ(count_found(*table, range(10, 60)), 0);
  // One of the 51 young ones, of those last used at the same time, had to go.
  EXPECT_EQ(count_found(*table, range(0, 10)) + count_found(*table, range(60, 101)), 50);
  EXPECT_EQ(count_found(*table, {100}), 1);
}

TEST(MemoryStoreTest, UpdatesReuseTheMemoryOfOldRows) {
  MemoryStore store({.partitions = 1});
  const auto table = store.open("t", 16);
  const auto* memory = dynamic_cast<MemoryTable*>(table.get());
  std::set<const std::byte*> places;
  for (int i = 0; i < 30; ++i) {
    insert(*table, range(0, 10000));
    const auto inside = memory->gate().enter();
    for (int64_t key = 0; key < 10000; ++key) {
      places.insert(memory->find(MemoryTable::hash(key), key));
    }
  }
  EXPECT_LE(places.size(), 10000u + 1025u);  // 300,000 were written
}

TEST(MemoryStoreTest, ARowThatIsBeingReadIsNeitherChangedNorReused) {
  MemoryStore store({.partitions = 1});
  const auto table = store.open("t", 2);
  table->insert(std::vector<int64_t>{7}, std::vector<float>{1, 2});
  const auto* memory = dynamic_cast<MemoryTable*>(table.get());
  auto inside = memory->gate().enter();
  const auto* row = reinterpret_cast<const float*>(memory->find(MemoryTable::hash(7), 7));
  std::atomic<int> rounds{0};
  std::thread writer([&] {
    for (int i = 0; i < 3000; ++i, ++rounds) {
      table->insert(std::vector<int64_t>{7}, std::vector<float>{3, 4});
    }
  });
  while (rounds < 1000) std::this_thread::yield();  // others continue to write meanwhile
  EXPECT_EQ(row[0], 1);
  EXPECT_EQ(row[1], 2);
  const auto* now = reinterpret_cast<const float*>(memory->find(MemoryTable::hash(7), 7));
  EXPECT_EQ(now[0], 3);
  inside.leave();
  writer.join();
}

TEST(MemoryStoreTest, ATableOutlivesItsStore) {
  std::shared_ptr<KvTable> table;
  {
    MemoryStore store;
    table = store.open("t", 1);
    store.drop("t");
  }
  insert(*table, {1, 2});
  EXPECT_EQ(table->size(), 2);
}

TEST(MemoryStoreTest, SettingsThatCannotWorkAreRefused) {
  EXPECT_THAT([] { MemoryStore({.partitions = -1}); },
              ThrowsMessage<Error>(HasSubstr("-1 partitions")));
  EXPECT_THAT([] { limited(0, OverflowPolicy::kEvictOldest); },
              ThrowsMessage<Error>(HasSubstr("keeps no row")));
  EXPECT_THAT([] { MemoryStore({.overflow = {.target = 1.5}}); },
              ThrowsMessage<Error>(HasSubstr("1.5 is outside [0, 1]")));
}

}  // namespace
}  // namespace emblem
