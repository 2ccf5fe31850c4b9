#include "embedding/cache/row_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/device/device_test.h"

namespace emblem {
namespace {

constexpr int64_t kRowBytes = 32;
using Existing = RowCache::Existing;

// The row of a key in some version of the table: key, version, key, version.
std::vector<char> rows_of(std::span<const int64_t> keys, int64_t version = 0) {
  std::vector<char> rows(keys.size() * kRowBytes);
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t words[kRowBytes / 8] = {keys[i], version, keys[i], version};
    std::memcpy(rows.data() + i * kRowBytes, words, kRowBytes);
  }
  return rows;
}

// The version of a row, or -1 when it is not one of the key.
int64_t version_of(int64_t key, const char* row) {
  int64_t words[kRowBytes / 8];
  std::memcpy(words, row, kRowBytes);
  const bool whole = words[0] == key && words[2] == key && words[1] == words[3];
  return whole ? words[1] : -1;
}

class RowCacheTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    stream_ = use_own_stream(context_);
  }
  RowCache make(std::vector<int64_t> rows, CachePolicy policy = CachePolicy::kLru) {
    return RowCache(context_, {kRowBytes, std::move(rows), policy});
  }
  static std::vector<int64_t> numbers(int64_t begin, int64_t end) {
    std::vector<int64_t> keys(static_cast<size_t>(end - begin));
    std::iota(keys.begin(), keys.end(), begin);
    return keys;
  }
  static void insert(RowCache& cache, int table, const std::vector<int64_t>& keys,
                     int64_t version = 0, Existing existing = Existing::kKeep) {
    cache.insert(table, keys, rows_of(keys, version), existing);
  }
  // The version of each key's row; -2: it has none.
  static std::vector<int64_t> read(RowCache& cache, int table, const std::vector<int64_t>& keys) {
    std::vector<uint8_t> found(keys.size());
    std::vector<char> rows(keys.size() * kRowBytes);
    cache.read(table, keys, found, rows);
    std::vector<int64_t> versions;
    for (size_t i = 0; i < keys.size(); ++i)
      versions.push_back(found[i] != 0 ? version_of(keys[i], rows.data() + i * kRowBytes) : -2);
    return versions;
  }
  std::shared_ptr<cuda::Stream> stream_;
};

TEST_P(RowCacheTest, GivesBackWhatWasInserted) {
  RowCache cache = make({100});
  insert(cache, 0, {7, -1, INT64_MAX, INT64_MIN, 0});
  EXPECT_EQ(read(cache, 0, {0, 7, 8, INT64_MIN, -1, INT64_MAX, 7}),
            (std::vector<int64_t>{0, 0, -2, 0, 0, 0, 0}));
  auto keys = cache.keys(0);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, (std::vector<int64_t>{INT64_MIN, -1, 0, 7, INT64_MAX}));
}

TEST_P(RowCacheTest, KeepsTablesApart) {
  RowCache cache = make({50, 50});
  insert(cache, 0, {1, 2});
  insert(cache, 1, {2, 3}, 5);
  EXPECT_EQ(read(cache, 0, {1, 2, 3}), (std::vector<int64_t>{0, 0, -2}));
  EXPECT_EQ(read(cache, 1, {1, 2, 3}), (std::vector<int64_t>{-2, 5, 5}));
}

TEST_P(RowCacheTest, KeepsOrReplacesRowsThatAreThere) {
  RowCache cache = make({10});
  insert(cache, 0, {1}, 1);
  insert(cache, 0, {1, 2}, 2, Existing::kKeep);
  EXPECT_EQ(read(cache, 0, {1, 2}), (std::vector<int64_t>{1, 2}));
  insert(cache, 0, {1}, 3, Existing::kReplace);
  EXPECT_EQ(read(cache, 0, {1, 2}), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(cache.keys(0).size(), 2u);
}

TEST_P(RowCacheTest, UpdatesOnlyRowsThatAreThere) {
  RowCache cache = make({10});
  insert(cache, 0, {1}, 1);
  insert(cache, 0, {1, 2}, 2, Existing::kUpdate);
  EXPECT_EQ(read(cache, 0, {1, 2}), (std::vector<int64_t>{2, -2}));
}

TEST_P(RowCacheTest, HoldsTheRowsItWasMadeFor) {
  RowCache cache = make({30 * 100});
  for (int64_t at = 0; at < 3000; at += 100) insert(cache, 0, numbers(at, at + 100));
  int64_t there = 0;
  for (const int64_t version : read(cache, 0, numbers(0, 3000))) there += version == 0;
  EXPECT_GT(there, 2600);  // some sets get more keys than they hold
}

TEST_P(RowCacheTest, LetsTheLeastRecentlyUsedLeave) {
  RowCache cache = make({30});  // one set
  insert(cache, 0, numbers(0, 30));
  read(cache, 0, numbers(0, 10));
  for (int64_t key = 100; key < 115; ++key) insert(cache, 0, {key});
  for (const int64_t version : read(cache, 0, numbers(0, 10))) EXPECT_EQ(version, 0);
  for (const int64_t version : read(cache, 0, numbers(103, 115))) EXPECT_EQ(version, 0);
}

TEST_P(RowCacheTest, LetsTheLeastFrequentlyUsedLeave) {
  RowCache cache = make({30}, CachePolicy::kLfu);
  insert(cache, 0, numbers(0, 30));
  for (int i = 0; i < 50; ++i) read(cache, 0, numbers(0, 10));
  read(cache, 0, numbers(10, 30));  // later, but once
  read(cache, 0, {1000});           // rows of the last lookup would stay
  for (int64_t key = 100; key < 120; ++key) insert(cache, 0, {key});
  for (const int64_t version : read(cache, 0, numbers(0, 10))) EXPECT_EQ(version, 0);
}

TEST_P(RowCacheTest, DoesNotTouchRowsThatALookupUnderWayMayRead) {
  RowCache cache = make({30});
  insert(cache, 0, numbers(0, 30));
  const uint64_t pass = cache.begin_read();
  for (int64_t key = 100; key < 200; ++key) insert(cache, 0, {key});
  // Spare slots were taken; the slots of rows that left since stay as they are.
  int64_t came = 0;
  for (const int64_t version : read(cache, 0, numbers(100, 200))) came += version == 0;
  EXPECT_LE(came, kSpareWays);
  cache.end_read(pass);
  insert(cache, 0, {300});  // makes room
  insert(cache, 0, {300});
  EXPECT_EQ(read(cache, 0, {300}), (std::vector<int64_t>{0}));
}

TEST_P(RowCacheTest, KeepsSlotsThatAPassMayReadWhichBeganBeforeTheyWereTaken) {
  RowCache cache = make({30});
  insert(cache, 0, numbers(0, 30));
  read(cache, 0, {1000});
  const uint64_t taking = cache.begin_read();  // its marks may be as old as this
  const uint64_t reading = cache.begin_read();
  cache.end_read(taking);
  EXPECT_LE(cache.epochs().free_before, taking);
  const uint64_t later = cache.begin_read();
  cache.end_read(reading);
  EXPECT_GT(cache.epochs().free_before, taking);
  EXPECT_LE(cache.epochs().free_before, reading);
  cache.end_read(later);
  EXPECT_GT(cache.epochs().free_before, later);
}

TEST_P(RowCacheTest, KeepsTheSameRowsOfABatchThatIsTooLargeForASet) {
  RowCache cache = make({30});
  const auto batch = numbers(0, 50);
  std::vector<int64_t> kept;
  for (int pass = 0; pass < 5; ++pass) {
    const auto versions = read(cache, 0, batch);
    if (pass == 1) kept = versions;
    if (pass > 1) {
      EXPECT_EQ(versions, kept);
    }
    insert(cache, 0, batch);
  }
  EXPECT_EQ(std::count(kept.begin(), kept.end(), 0), kWays);
  read(cache, 0, {1000});
  for (int pass = 0; pass < 2; ++pass) insert(cache, 0, {100});  // another batch's rows come
  EXPECT_EQ(read(cache, 0, {100}), (std::vector<int64_t>{0}));
}

TEST_P(RowCacheTest, ForgetsARowItCannotReplaceYet) {
  RowCache cache = make({30});
  insert(cache, 0, numbers(0, 30));
  const uint64_t pass = cache.begin_read();
  for (int64_t version = 1; version < 6; ++version)
    insert(cache, 0, numbers(0, 30), version, Existing::kReplace);
  for (const int64_t version : read(cache, 0, numbers(0, 30)))
    EXPECT_TRUE(version == -2 || version == 5) << version;
  cache.end_read(pass);
}

TEST_P(RowCacheTest, RefusesSettingsThatMakeNoSense) {
  EXPECT_THROW(RowCache(context_, {20, {10}, CachePolicy::kLru}), Error);
  EXPECT_THROW(RowCache(context_, {32, {}, CachePolicy::kLru}), Error);
  EXPECT_THROW(RowCache(context_, {32, {0}, CachePolicy::kLru}), Error);
}

EMBLEM_TEST_ON_EVERY_DEVICE(RowCacheTest);

TEST(CacheRows, AreAShareOfTheRowsAndFitTheBytes) {
  const std::vector<int64_t> tables = {1000, 4};
  EXPECT_EQ(cache_rows(tables, {.share = 0.2, .least_rows = 0}, 32),
            (std::vector<int64_t>{200, 1}));
  EXPECT_EQ(cache_rows(tables, {.share = 0.2, .least_rows = 0, .bytes = 3216}, 32),
            (std::vector<int64_t>{100, 1}));
  EXPECT_THROW(cache_rows(tables, {.share = 0.0}, 32), Error);
  EXPECT_THROW(cache_rows(tables, {.share = 1.5}, 32), Error);
}

TEST(CacheRows, HoldSmallTablesWholeAtTheCostOfLargeOnes) {
  const std::vector<int64_t> tables = {10'000'000, 4, 20'000, 200'000, 1'000'000};
  const auto rows = cache_rows(tables, {.share = 0.2}, 32);
  EXPECT_EQ(rows[1], 8);
  EXPECT_EQ(rows[2], 40'000);
  EXPECT_EQ(rows[3], 65'536);
  EXPECT_NEAR(static_cast<double>(rows[0]) / static_cast<double>(rows[4]), 10.0, 1e-3);
  EXPECT_NEAR(std::accumulate(rows.begin(), rows.end(), 0.0), 0.2 * 11'220'004, 2.0);
  EXPECT_EQ(cache_rows(std::vector<int64_t>{1000, 2000}, {.share = 0.1}, 32),
            (std::vector<int64_t>{2000, 4000}));
}

}  // namespace
}  // namespace emblem
