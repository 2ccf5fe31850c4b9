#include "serve/engine/hps/hps_lookup.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/device/device_test.h"
#include "core/math/random.h"

#include "serve/engine/hps/hps_gpu.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr float kDefaults[] = {9.0f, -1.0f, 0.5f};
constexpr int64_t kDims[] = {4, 16, 1};
constexpr int64_t kRows = 2000;

struct Cache {
  double share = 1.0, hit_rate_threshold = 2.0, refresh_share = 0.0;
  bool fill = false;
  int64_t least_rows = 0;
};

// Three tables whose row of key k is k in all elements.
class HpsLookupTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    MemoryStore store;
    for (int t = 0; t < 3; ++t) {
      const auto memory = store.open(cat("table", t), kDims[t]);
      for (int64_t key = 0; key < kRows; ++key)
        memory->insert(std::vector<int64_t>{key},
                       std::vector<float>(static_cast<size_t>(kDims[t]), static_cast<float>(key)));
      memory_.push_back(memory);
      tables_.push_back(std::make_shared<ServedTable>(
          ServedTableSettings{.name = cat("table", t),
                              .dim = kDims[t],
                              .missing = {Initializer::Kind::kConstant, kDefaults[t], 0.0f}},
          memory, nullptr));
    }
  }

  std::unique_ptr<HpsLookup> make(const Cache& cache = {}, int64_t max_samples = 64) {
    return dispatch(
        GetParam(),
        [&] {
          std::vector<ServedTable*> tables;
          for (const auto& table : tables_) tables.push_back(table.get());
          return make_host_lookup(tables);
        },
        [&] {
          gpu_ = std::make_shared<cuda::HpsGpuTables>(cuda::HpsGpuSettings{
              .tier = {.tables = tables_,
                       .size = {.share = cache.share, .least_rows = cache.least_rows},
                       .hit_rate_threshold = cache.hit_rate_threshold,
                       .refresh_share = cache.refresh_share},
              .keys_per_sample = {2, 3, 1},
              .max_samples = max_samples,
              .fill = cache.fill});
          return gpu_->make_lookup();
        });
  }

  // One value per key: that of all elements of its row, or NaN.
  std::vector<float> look_up(HpsLookup& lookup, const std::vector<std::vector<int64_t>>& keys) {
    std::vector<View<const int64_t>> views;
    size_t floats = 0;
    for (size_t t = 0; t < keys.size(); ++t) {
      views.push_back({keys[t].data(), static_cast<int64_t>(keys[t].size()), 1});
      floats += keys[t].size() * static_cast<size_t>(kDims[t]);
    }
    std::vector<float> rows(floats, -777.0f), values;
    lookup.copy_rows(views, rows.data());
    const float* at = rows.data();
    for (size_t t = 0; t < keys.size(); ++t) {
      for (size_t i = 0; i < keys[t].size(); ++i, at += kDims[t])
        values.push_back(std::all_of(at, at + kDims[t], [&](float v) { return v == at[0]; })
                             ? at[0]
                             : std::numeric_limits<float>::quiet_NaN());
    }
    return values;
  }

  void wait_until_fetched() {
    dispatch(
        GetParam(), [] {}, [&] { gpu_->tier().wait_until_fetched(); });
  }
  bool on_gpu() const { return GetParam() == Device::kCuda; }

  std::vector<std::shared_ptr<KvTable>> memory_;
  std::vector<std::shared_ptr<ServedTable>> tables_;
  std::shared_ptr<cuda::HpsGpuTables> gpu_;
};

TEST_P(HpsLookupTest, GivesTheRowsOfEachTableInTheOrderOfTheKeys) {
  const auto lookup = make();
  EXPECT_THAT(look_up(*lookup, {{3, 7, 3}, {5, 1999}, {0}}), ElementsAre(3, 7, 3, 5, 1999, 0));
  EXPECT_THAT(look_up(*lookup, {{}, {8}, {}}), ElementsAre(8));
  EXPECT_TRUE(look_up(*lookup, {{}, {}, {}}).empty());
}

TEST_P(HpsLookupTest, KeysWithoutARowReadAsTheDefaultOfTheirTable) {
  const auto lookup = make();
  EXPECT_THAT(look_up(*lookup, {{5000, 1}, {-3}, {2, 9999}}), ElementsAre(9, 1, -1, 2, 0.5));
  EXPECT_EQ(tables_[0]->missing_everywhere(), 1u);
}

// Counts that differ from those that ps.json expects, and more keys than one pass has room for.
TEST_P(HpsLookupTest, AnyNumberOfKeysIsAnswered) {
  const auto lookup = make({.share = 0.3}, 16);
  Random random{.seed = 4};
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<int64_t>> keys(3);
    std::vector<float> expected;
    for (size_t t = 0; t < 3; ++t) {
      keys[t].resize(random.below(300));
      for (int64_t& key : keys[t]) {
        key = static_cast<int64_t>(random.below(kRows + 100));
        expected.push_back(key < kRows ? static_cast<float>(key) : kDefaults[t]);
      }
    }
    ASSERT_EQ(look_up(*lookup, keys), expected) << "round " << round;
  }
}

TEST_P(HpsLookupTest, UpdatesAreSeen) {
  const auto lookup = make();
  EXPECT_THAT(look_up(*lookup, {{1, 2}, {}, {1}}), ElementsAre(1, 2, 1));
  tables_[0]->apply(std::vector<int64_t>{2, 6000}, std::vector<float>(8, 77.0f));
  EXPECT_THAT(look_up(*lookup, {{1, 2, 6000}, {}, {2}}), ElementsAre(1, 77, 77, 2));
}

// Below the threshold a request waits for its rows; from it on, it gets default rows instead of
// those that are missing, which later requests find. The rule holds for each table.
TEST_P(HpsLookupTest, AboveTheThresholdRowsAreFetchedLater) {
  const auto lookup = make({.hit_rate_threshold = 0.5});
  EXPECT_THAT(look_up(*lookup, {{1, 2, 3}, {4}, {5}}), ElementsAre(1, 2, 3, 4, 5));
  const float later = on_gpu() ? 9.0f : 8.0f;  // a CPU has all rows at hand
  EXPECT_THAT(look_up(*lookup, {{1, 2, 3, 8}, {40, 41}, {5}}),
              ElementsAre(1, 2, 3, later, 40, 41, 5));
  wait_until_fetched();
  EXPECT_THAT(look_up(*lookup, {{1, 2, 3, 8}, {40}, {5}}), ElementsAre(1, 2, 3, 8, 40, 5));
  EXPECT_EQ(tables_[0]->missing_everywhere(), 0u);
}

TEST_P(HpsLookupTest, AThresholdAboveOneAlwaysWaits) {
  const auto lookup = make({.hit_rate_threshold = 1.1});
  look_up(*lookup, {{1, 2, 3}, {}, {}});
  EXPECT_THAT(look_up(*lookup, {{1, 2, 3, 8}, {}, {}}), ElementsAre(1, 2, 3, 8));
}

TEST_P(HpsLookupTest, AFilledCacheMissesNoRow) {
  const auto lookup = make({.hit_rate_threshold = 0.0, .fill = true, .least_rows = kRows});
  std::vector<int64_t> all(kRows);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<float> expected(all.begin(), all.end());
  for (size_t t = 0; t < 3; ++t) {
    std::vector<std::vector<int64_t>> keys(3);
    keys[t] = all;
    EXPECT_EQ(look_up(*lookup, keys), expected) << "table " << t;
  }
}

// In steps of a share of the cache, as in one.
TEST_P(HpsLookupTest, RefreshReadsRowsThatOthersChanged) {
  const auto lookup = make({.refresh_share = 0.01});
  std::vector<std::vector<int64_t>> keys(3);
  for (int64_t key = 0; key < 500; ++key) keys[0].push_back(key);
  look_up(*lookup, keys);
  for (const int64_t key : keys[0])
    memory_[0]->insert(std::vector<int64_t>{key}, std::vector<float>(4, 123.0f));
  const std::vector<float> before = look_up(*lookup, keys);
  EXPECT_EQ(before[7], on_gpu() ? 7.0f : 123.0f);
  tables_[0]->refresh_caches();
  EXPECT_THAT(look_up(*lookup, keys), Each(123.0f));
}

EMBLEM_TEST_ON_EVERY_DEVICE(HpsLookupTest);

}  // namespace
}  // namespace emblem
