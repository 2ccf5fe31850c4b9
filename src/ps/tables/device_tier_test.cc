#include "ps/tables/device_tier.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/device/device_test.h"
#include "ps/tables/served_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;

constexpr Initializer kDefault = {Initializer::Kind::kConstant, 9.0f, 0.0f};
constexpr int64_t kDim = 4;

class DeviceTierTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
    context_.device = Device::kCuda;
    stream_ = use_own_stream(context_);
    for (int64_t key = 0; key < 1000; ++key) put(key, static_cast<float>(key));
    table_ = std::make_shared<ServedTable>(
        ServedTableSettings{.name = "hps_et.m.t", .dim = kDim, .missing = kDefault}, memory_,
        nullptr);
  }
  void put(int64_t key, float value) {
    memory_->insert(std::vector<int64_t>{key}, std::vector<float>(kDim, value));
  }

  // Runs `body` with a tier, where there can be one.
  template <class Body>
  void with_tier(double threshold, Body&& body) {
    dispatch(
        Device::kCuda, [] {},
        [&] {
          cuda::DeviceTier tier({.tables = {table_},
                                 .size = {.share = 0.1, .least_rows = 0},
                                 .hit_rate_threshold = threshold});
          Reader reader(*this, tier);
          body(tier, reader);
        });
  }

  // Looks up keys as a batch does: one feature, up to 64 rows.
  class Reader {
   public:
    Reader(DeviceTierTest& test, cuda::DeviceTier& tier)
        : test_(test),
          tier_(tier),
          rows_(tier.make_rows(test.context_, {0}, 64)),
          missing_(tier.make_missing()) {}

    // The value of each row, all of whose elements are equal, or -1.
    std::vector<float> operator()(const std::vector<int64_t>& keys) {
      const Context& context = test_.context_;
      std::vector<int64_t> input(1 + 64);
      input[0] = static_cast<int64_t>(keys.size());
      std::copy(keys.begin(), keys.end(), input.begin() + 1);
      const auto device = Buffer<int64_t>::from(context, input);
      struct ReadScope {
        RowCache& cache;
        uint64_t number;
        ~ReadScope() { cache.end_read(number); }
      } scope{tier_.cache(), tier_.cache().begin_read()};
      rows_->clear_report();
      rows_->find(context, {reinterpret_cast<const uint32_t*>(device.data()), device.data() + 1},
                  64);
      context.synchronize();
      misses = rows_->report().lookups;
      missing_->count_lookups(*rows_, static_cast<int64_t>(keys.size()));
      if (rows_->report().distinct > 0) missing_->fetch(context, *rows_);
      context.synchronize();
      std::vector<const void*> addresses(64);
      detail::copy(context, addresses.data(), rows_->addresses(), 64 * sizeof(void*));
      context.synchronize();
      std::vector<float> rows(keys.size() * kDim), values;
      for (size_t i = 0; i < keys.size(); ++i)
        detail::copy(context, rows.data() + i * kDim, addresses[i], kDim * sizeof(float));
      context.synchronize();
      for (size_t i = 0; i < keys.size(); ++i) {
        const float* row = rows.data() + i * kDim;
        const bool whole = std::all_of(row, row + kDim, [&](float v) { return v == row[0]; });
        values.push_back(whole ? row[0] : -1.0f);
      }
      return values;
    }
    int64_t misses = 0;

   private:
    DeviceTierTest& test_;
    cuda::DeviceTier& tier_;
    std::unique_ptr<cuda::CachedRows> rows_;
    std::unique_ptr<cuda::MissingRowSource> missing_;
  };

  Context context_;
  std::shared_ptr<cuda::Stream> stream_;
  std::shared_ptr<FragileTable> memory_ = std::make_shared<FragileTable>("memory", kDim);
  std::shared_ptr<ServedTable> table_;
};

TEST_F(DeviceTierTest, FetchesWhatIsMissingOnceAndKeepsIt) {
  with_tier(2.0, [&](auto&, auto& read) {
    EXPECT_THAT(read({5, 7, 5, 999, 5}), ElementsAre(5, 7, 5, 999, 5));
    EXPECT_EQ(read.misses, 5);
    EXPECT_EQ(memory_->keys_asked, 3);
    EXPECT_THAT(read({999, 7, 5}), ElementsAre(999, 7, 5));
    EXPECT_EQ(read.misses, 0);
    EXPECT_EQ(memory_->keys_asked, 3);
    EXPECT_EQ(table_->l1_counts().hits, 3u);
    EXPECT_EQ(table_->l1_counts().misses, 5u);
  });
}

TEST_F(DeviceTierTest, GivesTheDefaultRowForKeysThatNoTierHasAndCountsThem) {
  with_tier(2.0, [&](auto&, auto& read) {
    EXPECT_THAT(read({-1, 3, 5000}), ElementsAre(9, 3, 9));
    EXPECT_EQ(table_->missing_everywhere(), 2u);
    EXPECT_THAT(read({-1, 3}), ElementsAre(9, 3));
  });
}

TEST_F(DeviceTierTest, AnswersWithTheDefaultRowAndFetchesBehindAboveTheThreshold) {
  with_tier(0.5, [&](auto& tier, auto& read) {
    EXPECT_THAT(read({1, 2, 3, 4}), ElementsAre(1, 2, 3, 4));  // all missing: it waits
    EXPECT_THAT(read({1, 2, 3, 8}), ElementsAre(1, 2, 3, 9));
    tier.wait_until_fetched();
    EXPECT_THAT(read({1, 2, 3, 8}), ElementsAre(1, 2, 3, 8));
  });
}

TEST_F(DeviceTierTest, UpdatesReachRowsInTheCache) {
  with_tier(2.0, [&](auto&, auto& read) {
    read({1, 2});
    table_->apply(std::vector<int64_t>{1, 3}, std::vector<float>(2 * kDim, 77.0f));
    EXPECT_THAT(read({1, 2, 3}), ElementsAre(77, 2, 77));
    table_->apply(std::vector<int64_t>{2, 2}, std::vector<float>{5, 5, 5, 5, 6, 6, 6, 6});
    EXPECT_THAT(read({2}), ElementsAre(6));  // the last of equal keys stays
  });
}

TEST_F(DeviceTierTest, RefreshReadsRowsAnew) {
  with_tier(2.0, [&](auto&, auto& read) {
    read({1, 2});
    put(1, 500);  // without the table's knowledge
    EXPECT_THAT(read({1, 2}), ElementsAre(1, 2));
    table_->refresh();
    EXPECT_THAT(read({1, 2}), ElementsAre(500, 2));
  });
}

TEST_F(DeviceTierTest, ServesWhatItHasWhileTheTiersBelowAreDown) {
  with_tier(2.0, [&](auto&, auto& read) {
    read({1, 2});
    memory_->down = true;
    EXPECT_THAT(read({1, 2}), ElementsAre(1, 2));
    EXPECT_THROW(read({1, 50}), Error);
    memory_->down = false;
    EXPECT_THAT(read({1, 50}), ElementsAre(1, 50));
  });
}

TEST_F(DeviceTierTest, IsRightWhateverComesAndGoes) {
  with_tier(2.0, [&](auto&, auto& read) {  // 100 of 1000 rows fit
    for (int64_t round = 0; round < 100; ++round) {
      std::vector<int64_t> keys;
      for (int64_t i = 0; i < 64; ++i) keys.push_back((round * 37 + i * i) % 1000);
      const std::vector<float> values = read(keys);
      for (size_t i = 0; i < keys.size(); ++i)
        ASSERT_EQ(values[i], static_cast<float>(keys[i])) << "round " << round;
    }
  });
}

TEST_F(DeviceTierTest, ReadersSeeWholeRowsWhileOthersUpdateThem) {
  with_tier(2.0, [&](auto&, auto& read) {
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < 64; ++key) keys.push_back(key);
    table_->apply(keys, std::vector<float>(64 * kDim, 1000.0f));
    std::atomic<int> done{0};
    std::thread writer([&] {
      for (int round = 1; round <= 100; ++round) {
        table_->apply(keys, std::vector<float>(64 * kDim, 1000.0f + static_cast<float>(round)));
        done = round;
      }
    });
    while (done < 100) {
      const auto least = 1000.0f + static_cast<float>(done);
      for (const float value : read(keys)) {
        EXPECT_GE(value, least);  // what is done before a read begins is seen by it
        EXPECT_LE(value, 1100.0f);
      }
    }
    writer.join();
  });
}

}  // namespace
}  // namespace emblem
