// Partitions of a table in Redis that are lost, or have damaged rows.
#include "store/redis/redis_store.h"

#ifdef EMBLEM_WITH_REDIS

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "store/redis/redis_row.h"
#include "store/redis/redis_server_test.h"
#include "store/table_note.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kKeys = 200;

class RedisPartsTest : public testing::Test {
 protected:
  void SetUp() override {
    EMBLEM_SKIP_WITHOUT_REDIS();
    ASSERT_TRUE(server_.wait());
    RedisSettings settings = server_.settings();  // 4 partitions
    settings.check_interval_ms = 0;
    store_ = make_redis_store(settings);
    table_ = store_->open_parts("t", 2);
    keys_.resize(kKeys);
    std::iota(keys_.begin(), keys_.end(), int64_t{0});
    store_->set_note("loaded.t", TableNote{"files", "g1"}.text());
    table_->require_note("loaded.t", "refilling");
    fill({0, 1, 2, 3}, "g1");
  }
  static std::vector<float> row_of(int64_t key) { return std::vector<float>(2, key + 0.5f); }
  void fill(const std::vector<size_t>& parts, const std::string& generation) {
    table_->start_filling(parts, generation);
    for (const int64_t key : keys_) {
      const bool wanted =
          std::find(parts.begin(), parts.end(), table_->partition_of(key)) != parts.end();
      if (wanted) table_->bulk_insert(std::vector<int64_t>{key}, row_of(key));
    }
    table_->finish_filling(parts, generation);
  }
  // All keys; checks the rows that were found.
  KvFetch fetch() {
    rows_.assign(kKeys * 2, -1.0f);
    found_.assign(kKeys, 9);
    KvFetch fetch{.table = table_.get(), .keys = keys_, .rows = rows_, .found = found_};
    KvFetch* const only = &fetch;
    table_->fetch_together({&only, 1});
    EXPECT_FALSE(fetch.error) << fetch.error->what();
    for (int64_t key = 0; key < kKeys; ++key) {
      if (found_[key] == 0) continue;
      EXPECT_EQ(rows_[2 * key], key + 0.5f);
    }
    return fetch;
  }
  std::vector<uint32_t> keys_in(size_t part) const {
    std::vector<uint32_t> keys;
    for (const int64_t key : keys_)
      if (table_->partition_of(key) == part) keys.push_back(static_cast<uint32_t>(key));
    return keys;
  }
  static std::string hash(size_t part) { return cat("hps_et{t/p", part, "}v"); }
  static std::string_view field(const int64_t& key) {
    return {reinterpret_cast<const char*>(&key), 8};
  }

  RedisServer server_;
  std::unique_ptr<SharedKvStore> store_;
  std::shared_ptr<PartitionedTable> table_;
  std::vector<int64_t> keys_;
  std::vector<float> rows_;
  std::vector<uint8_t> found_;
};

TEST_F(RedisPartsTest, AFilledTableIsWhole) {
  EXPECT_THAT(table_->lost_parts("g1"), IsEmpty());
  const KvFetch all = fetch();
  EXPECT_EQ(all.hits, kKeys);
  EXPECT_THAT(all.unknown, IsEmpty());
  EXPECT_EQ(table_->size(), kKeys);
  int64_t rows = 0;
  table_->iterate(50, [&](std::span<const int64_t> keys, std::span<const float>) {
    rows += static_cast<int64_t>(keys.size());
  });
  EXPECT_EQ(rows, kKeys);
}

TEST_F(RedisPartsTest, KeysOfALostPartitionAreUnknownAtOnce) {
  server_.call({"DEL", hash(2)});
  const KvFetch some = fetch();
  EXPECT_EQ(some.unknown, keys_in(2));
  EXPECT_EQ(some.hits, kKeys - static_cast<int64_t>(keys_in(2).size()));
  EXPECT_THAT(table_->lost_parts("g1"), ElementsAre(2));
  // An update does not make it whole.
  table_->insert(std::vector<int64_t>{static_cast<int64_t>(keys_in(2)[0])}, row_of(keys_in(2)[0]));
  EXPECT_EQ(fetch().unknown, keys_in(2));
  EXPECT_THROW(table_->fetch(keys_, rows_, found_), Error);
  fill({2}, "g1");
  EXPECT_THAT(fetch().unknown, IsEmpty());
  EXPECT_THAT(table_->lost_parts("g1"), IsEmpty());
}

TEST_F(RedisPartsTest, APartitionOfAnotherTypeIsLost) {
  server_.call({"DEL", hash(2)});
  server_.call({"LPUSH", hash(2), "x"});
  EXPECT_EQ(fetch().unknown, keys_in(2));
  EXPECT_THAT(table_->lost_parts("g1"), ElementsAre(2));
  fill({2}, "g1");
  EXPECT_EQ(fetch().hits, kKeys);
}

TEST_F(RedisPartsTest, ANoteOfAnotherTypeIsNoNote) {
  const std::string key = "emblem_note{loaded.t}";
  server_.call({"DEL", key});
  server_.call({"LPUSH", key, "x"});
  EXPECT_EQ(store_->note("loaded.t"), std::nullopt);
  rows_.resize(kKeys * 2);
  found_.resize(kKeys);
  KvFetch all{.table = table_.get(), .keys = keys_, .rows = rows_, .found = found_};
  KvFetch* const only = &all;
  table_->fetch_together({&only, 1});
  ASSERT_TRUE(all.error);
  EXPECT_EQ(all.error->code(), ErrorCode::kUnavailable);
  store_->set_note("loaded.t", TableNote{"files", "g1"}.text());
  EXPECT_EQ(fetch().hits, kKeys);
}

TEST_F(RedisPartsTest, APartitionOfAnOlderFillingIsLost) {
  const std::vector<size_t> others = {0, 1, 3};
  fill({others.begin(), others.end()}, "g2");
  store_->set_note("loaded.t", TableNote{"files", "g2"}.text());
  EXPECT_EQ(fetch().unknown, keys_in(2));
}

TEST_F(RedisPartsTest, RowsThatAreGoneAreNoticedWhenTheirKeysAreMissing) {
  const int64_t gone = keys_in(1)[3];
  server_.call({"HDEL", hash(1), field(gone)});
  EXPECT_EQ(fetch().unknown, keys_in(1));
  EXPECT_THAT(table_->lost_parts("g1"), ElementsAre(1));
  fill({1}, "g1");
  EXPECT_EQ(fetch().hits, kKeys);
}

TEST_F(RedisPartsTest, ChangesKeepTheNumberOfRows) {
  table_->insert(std::vector<int64_t>{1, 5000, 5001}, std::vector<float>{1.5, 1.5, 7, 7, 8, 8});
  table_->insert_missing(std::vector<int64_t>{1, 5002}, std::vector<float>{9, 9, 9, 9});
  table_->erase(std::vector<int64_t>{5000, 3, 77777});
  EXPECT_EQ(table_->size(), kKeys + 3 - 2);
  EXPECT_THAT(table_->lost_parts("g1"), IsEmpty());
}

TEST_F(RedisPartsTest, RowsThatAreLostWhileItIsFilledAreNoticed) {
  table_->start_filling(std::vector<size_t>{0, 1, 2, 3}, "g2");
  for (const int64_t key : keys_) table_->bulk_insert(std::vector<int64_t>{key}, row_of(key));
  server_.call({"DEL", hash(0)});
  const int64_t gone = keys_in(1)[0];
  server_.call({"HDEL", hash(1), field(gone)});
  table_->finish_filling(std::vector<size_t>{0, 1, 2, 3}, "g2");
  EXPECT_THAT(table_->lost_parts("g2"), ElementsAre(0, 1));
}

TEST_F(RedisPartsTest, DamagedRowsAreUnknownAndRemovedWhenThePartitionIsFilled) {
  const float nan[] = {1.0f, std::nanf("")};
  std::string scratch;
  const int64_t key = keys_in(3)[1];
  std::string flipped(
      RedisRow(2, RedisRow::Checksums::kWritten).encode(key, row_of(key).data(), scratch));
  flipped[2] = static_cast<char>(flipped[2] ^ 4);
  const std::string_view nans(reinterpret_cast<const char*>(nan), sizeof nan);
  int64_t foreign = 99999;  // not in the source
  while (table_->partition_of(foreign) != 3) ++foreign;
  uint64_t damaged = 0;
  for (const std::string_view value : {std::string_view(flipped), nans, std::string_view("abc")}) {
    server_.call({"HSET", hash(3), field(key), value});
    EXPECT_THAT(fetch().unknown, ElementsAre(static_cast<uint32_t>(key)));
    EXPECT_EQ(table_->damaged(), ++damaged);
    EXPECT_THAT(table_->lost_parts("g1"), ElementsAre(3));
    EXPECT_EQ(fetch().unknown, keys_in(3));  // until it is filled again
    ++damaged;
    server_.call({"HSET", hash(3), field(foreign), value});
    fill({3}, "g1");
    EXPECT_EQ(fetch().hits, kKeys);
    EXPECT_EQ(table_->size(), kKeys);
  }
}

TEST_F(RedisPartsTest, ATableFilledWithoutMarksIsReadAndCanBeAdopted) {
  for (size_t part = 0; part < 4; ++part)
    server_.call({"HDEL", hash(part), "#generation", "#rows"});
  store_->set_note("loaded.t", "files");
  EXPECT_EQ(fetch().hits, kKeys);
  table_->adopt("g5");
  store_->set_note("loaded.t", TableNote{"files", "g5"}.text());
  EXPECT_EQ(fetch().hits, kKeys);
  EXPECT_THAT(table_->lost_parts("g5"), IsEmpty());
  server_.call({"DEL", hash(0)});
  EXPECT_EQ(fetch().unknown, keys_in(0));
}

TEST_F(RedisPartsTest, SomethingElseUnderTheNameOfAPartitionIsReplaced) {
  server_.call({"DEL", hash(0)});
  server_.call({"SET", hash(0), "abc"});
  EXPECT_THAT(table_->lost_parts("g1"), ElementsAre(0));
  fill({0}, "g1");
  EXPECT_EQ(fetch().hits, kKeys);
}

TEST(RedisRowTest, RowsOfAnotherDimensionAreNeverTakenForRowsWithAChecksum) {
  std::string scratch;
  const std::vector<float> values(40, 1.0f);
  float out[40];
  for (int64_t written = 1; written < 20; ++written) {
    for (int64_t read = 1; read < 20; ++read) {
      for (const auto kind : {RedisRow::Checksums::kNone, RedisRow::Checksums::kWritten}) {
        const std::string value(RedisRow(written, kind).encode(7, values.data(), scratch));
        const std::string problem =
            RedisRow(read, RedisRow::Checksums::kWritten).decode(7, value, out);
        EXPECT_EQ(problem.empty(), written == read) << written << " " << read;
      }
    }
  }
}

}  // namespace
}  // namespace emblem

#endif
