#include "ps/tables/served_table.h"

#include <gmock/gmock.h>

#include <thread>

#include "ps/tables/promotion_queue.h"
#include "ps/tables/served_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Initializer kServedTableDefault = {Initializer::Kind::kConstant, 9.0f, 0.0f};

void put(KvTable& table, std::vector<int64_t> keys, std::vector<float> rows) {
  table.insert(keys, rows);
}

class ServedTableTest : public testing::Test {
 protected:
  ServedTable& make(std::shared_ptr<KvTable> l2, std::shared_ptr<KvTable> l3,
                    bool cache_missed = false) {
    table_ = std::make_shared<ServedTable>(ServedTableSettings{.name = "hps_et.m.t",
                                                               .dim = 1,
                                                               .missing = kServedTableDefault,
                                                               .cache_missed = cache_missed},
                                           l2, l3, &promotions_);
    return *table_;
  }

  std::shared_ptr<FragileTable> memory_ = std::make_shared<FragileTable>("memory", 1);
  std::shared_ptr<RemoteTable> redis_ = std::make_shared<RemoteTable>("redis", 1);
  std::shared_ptr<RemoteTable> disk_ = std::make_shared<RemoteTable>("disk", 1);
  PromotionQueue promotions_;
  std::shared_ptr<ServedTable> table_;
};

TEST_F(ServedTableTest, RowsComeFromTheFirstTierThatHasThemThenTheDefault) {
  for (const std::shared_ptr<KvTable>& l2 :
       {std::shared_ptr<KvTable>(memory_), std::shared_ptr<KvTable>(redis_)}) {
    put(*l2, {1, 2}, {10, 20});
    put(*disk_, {2, 3}, {21, 31});
    ServedTable& table = make(l2, disk_);
    EXPECT_THAT(lookup(table, {3, 2, 4, 1, 3, 4, 4}), ElementsAre(31, 20, 9, 10, 31, 9, 9));
    EXPECT_EQ(table.l3_counts().hits, 1u);    // key 3, asked once
    EXPECT_EQ(table.l3_counts().misses, 1u);  // key 4
    EXPECT_EQ(table.missing_everywhere(), 3u);
    EXPECT_EQ(table.l2_counts().hits, 2u);
    EXPECT_EQ(table.l2_counts().errors, 0u);
    EXPECT_GT(table.l3_counts().nanoseconds, 0u);
  }
}

TEST_F(ServedTableTest, ATierAloneServes) {
  put(*disk_, {3}, {31});
  EXPECT_THAT(lookup(make(nullptr, disk_), {3, 4}), ElementsAre(31, 9));
  put(*redis_, {3}, {32});
  EXPECT_THAT(lookup(make(redis_, nullptr), {3, 4}), ElementsAre(32, 9));
  put(*memory_, {3}, {33});
  EXPECT_THAT(lookup(make(memory_, nullptr), {3, 4, 3}), ElementsAre(33, 9, 33));
  EXPECT_EQ(table_->missing_everywhere(), 1u);
  EXPECT_THAT([&] { make(nullptr, nullptr); }, ThrowsMessage<Error>(HasSubstr("no tier")));
}

TEST_F(ServedTableTest, RemoteTiersAreAskedOnceForEachKey) {
  put(*redis_, {1}, {10});
  ServedTable& table = make(redis_, disk_);
  lookup(table, {1, 1, 1, 2, 2, 1, 2});
  EXPECT_EQ(redis_->table.fetches, 1);
  EXPECT_EQ(redis_->table.keys_asked, 2);
  EXPECT_EQ(disk_->table.keys_asked, 1);
}

TEST_F(ServedTableTest, WithL2DownL3AnswersAndWithoutL3ItIsRefused) {
  put(*redis_, {1}, {10});
  put(*disk_, {1, 2}, {11, 21});
  redis_->table.down = true;
  ServedTable& table = make(redis_, disk_);
  EXPECT_THAT(lookup(table, {1, 2, 3}), ElementsAre(11, 21, 9));
  EXPECT_EQ(table.l2_counts().errors, 1u);
  disk_->table.down = true;
  try {
    lookup(table, {1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  }
  EXPECT_EQ(table.l3_counts().errors, 1u);
  redis_->table.down = false;  // has key 1, but not 2, for which L3 would be needed
  EXPECT_THAT(lookup(table, {1}), ElementsAre(10));
  EXPECT_THROW(lookup(table, {1, 2}), Error);
  ServedTable& alone = make(redis_, nullptr);
  redis_->table.down = true;
  EXPECT_THROW(lookup(alone, {1}), Error);
}

TEST_F(ServedTableTest, RowsFoundInL3ArePutIntoL2IfAsked) {
  put(*disk_, {1, 2}, {10, 20});
  lookup(make(memory_, disk_), {1, 2, 3});
  promotions_.wait_until_empty();
  EXPECT_EQ(memory_->size(), 0);
  ServedTable& table = make(memory_, disk_, true);
  lookup(table, {1, 2, 3});
  promotions_.wait_until_empty();
  EXPECT_EQ(memory_->size(), 2);
  const int64_t before = disk_->table.fetches;
  EXPECT_THAT(lookup(table, {2, 1}), ElementsAre(20, 10));
  EXPECT_EQ(disk_->table.fetches, before);
}

TEST_F(ServedTableTest, UpdatesGoToAllTiers) {
  put(*disk_, {1}, {10});
  ServedTable& table = make(memory_, disk_);
  table.apply(std::vector<int64_t>{1, 5}, std::vector<float>{11, 55});
  EXPECT_THAT(lookup(table, {1, 5}), ElementsAre(11, 55));
  EXPECT_EQ(disk_->size(), 2);
  EXPECT_EQ(memory_->size(), 2);
  EXPECT_EQ(table.rows_updated(), 2u);
}

TEST_F(ServedTableTest, AnUpdateThatFailedCanBeGivenAgain) {
  ServedTable& table = make(redis_, disk_);
  redis_->table.down = true;
  EXPECT_THROW(table.apply(std::vector<int64_t>{1}, std::vector<float>{11}), Error);
  EXPECT_THAT(lookup(table, {1}), ElementsAre(11));  // L3 has it
  redis_->table.down = false;
  table.apply(std::vector<int64_t>{1}, std::vector<float>{11});
  EXPECT_EQ(redis_->size(), 1);
}

// A row that was read from L3 before an update must not come into L2 after it.
TEST_F(ServedTableTest, AnOldRowNeverReplacesAnUpdatedOne) {
  put(*disk_, {1}, {10});
  ServedTable& table = make(memory_, disk_, true);
  table.promote(std::vector<int64_t>{1}, std::vector<float>{10}, 0);
  EXPECT_THAT(lookup(table, {1}), ElementsAre(10));
  table.apply(std::vector<int64_t>{1}, std::vector<float>{11});
  table.promote(std::vector<int64_t>{1}, std::vector<float>{10}, 0);  // read before the update
  table.promote(std::vector<int64_t>{1}, std::vector<float>{10}, 1);  // read while it was applied
  EXPECT_THAT(lookup(table, {1}), ElementsAre(11));
  table.promote(std::vector<int64_t>{1}, std::vector<float>{12}, 2);
  EXPECT_THAT(lookup(table, {1}), ElementsAre(12));
}

TEST_F(ServedTableTest, RefreshReadsTheRowsOfL2AnewFromL3) {
  put(*memory_, {1, 2, 7}, {10, 20, 70});
  put(*disk_, {1, 2, 3}, {11, 21, 31});
  ServedTable& table = make(memory_, disk_);
  table.refresh();
  EXPECT_EQ(memory_->size(), 3);  // no row is added
  EXPECT_THAT(lookup(table, {1, 2, 7}), ElementsAre(11, 21, 70));
}

TEST_F(ServedTableTest, UnderUpdatesAndPromotionsReadersSeeEveryUpdateThatIsDone) {
  put(*disk_, {1}, {0});
  ServedTable& table = make(memory_, disk_, true);
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};
  std::atomic<int64_t> old_rows{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto least = static_cast<float>(done.load());
        old_rows += lookup(table, {1})[0] < least;
      }
    });
  }
  for (int i = 1; i < 3000; ++i) {
    table.apply(std::vector<int64_t>{1}, std::vector<float>{static_cast<float>(i)});
    done = i;
    if (i % 3 == 0) memory_->erase(std::vector<int64_t>{1});  // as an overflow would
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  promotions_.wait_until_empty();
  EXPECT_EQ(old_rows, 0);
  EXPECT_THAT(lookup(table, {1}), ElementsAre(2999));
}

TEST_F(ServedTableTest, TiersOfAnotherDimensionAreRefused) {
  const auto wide = std::make_shared<RemoteTable>("wide", 2);
  EXPECT_THAT([&] { make(memory_, wide); },
              ThrowsMessage<Error>(HasSubstr("wide holds rows of dimension 2, not 1")));
}

}  // namespace
}  // namespace emblem
