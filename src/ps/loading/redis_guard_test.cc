// Partitions that a Redis loses under a server.
#include "ps/loading/redis_guard.h"

#include "ps/updates/updates_test.h"

#ifdef EMBLEM_WITH_REDIS

#include <gmock/gmock.h>

#include <numeric>

#include "ps/loading/file_rows.h"
#include "store/redis/redis_server_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;

class RedisGuardTest : public UpdatesTest {
 protected:
  void SetUp() override {
    EMBLEM_SKIP_WITHOUT_REDIS();
    ASSERT_TRUE(redis_.wait());
    keys_.resize(100);
    std::iota(keys_.begin(), keys_.end(), int64_t{0});
  }
  PsConfig config() const {
    PsConfig config;
    config.volatile_db.type = PsVolatile::Type::kRedis;
    config.volatile_db.address = redis_.endpoint().text();
    config.volatile_db.num_partitions = 4;
    config.volatile_db.connect_timeout_ms = 60'000;  // time for any machine
    config.volatile_db.request_timeout_ms = 60'000;
    return config;
  }
  static std::string hash(size_t part) { return cat("hps_et{hps_et.m.a/p", part, "}v"); }
  // Whether all rows are right; refused lookups are asked again.
  bool all_are_right(ServedTable& table) {
    bool right = false;
    EXPECT_TRUE(becomes_true([&] {
      try {
        const std::vector<float> rows = lookup(table, keys_);
        right = true;
        for (size_t i = 0; i < keys_.size(); ++i)
          right = right && rows[2 * i] == static_cast<float>(keys_[i]);
        return true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
        return false;
      }
    }));
    return right;
  }

  RedisServer redis_;
  std::vector<int64_t> keys_;
};

TEST_F(RedisGuardTest, ALostPartitionNeverGivesDefaultRowsAndIsFilledAgain) {
  ParameterServer server(config());
  const auto model = server.load_model("m", 1, tables());
  ServedTable& table = model->table("a");
  for (int loss = 0; loss < 3; ++loss) {
    redis_.call({"DEL", hash(loss)});
    EXPECT_TRUE(all_are_right(table));  // at once
    EXPECT_TRUE(becomes_true([&] {
      EXPECT_TRUE(all_are_right(table));
      return table.parts_refilled() == static_cast<uint64_t>(loss) + 1 && table.lost_parts() == 0;
    }));
    EXPECT_EQ(table.fallback(), nullptr);
    EXPECT_EQ(table.l2()->size(), 100);
  }
  EXPECT_EQ(table.missing_everywhere(), 0u);
}

TEST_F(RedisGuardTest, WhileAnotherServerFillsTheRowsOfTheFilesAreServed) {
  ParameterServer server(config());
  const auto model = server.load_model("m", 1, tables());
  ServedTable& table = model->table("a");
  redis_.call({"SET", "emblem_lock{tables.m}", "another server"});  // forever
  redis_.call({"DEL", hash(1)});
  EXPECT_TRUE(becomes_true([&] { return table.lost_parts() == 1; }));
  EXPECT_TRUE(all_are_right(table));
  EXPECT_GT(table.fallback_counts().hits, 0u);
  EXPECT_EQ(table.parts_refilled(), 0u);
  redis_.call({"DEL", "emblem_note{loaded.hps_et.m.a}"});  // now all of it is lost
  EXPECT_TRUE(becomes_true([&] { return table.lost_parts() == 4; }));
  EXPECT_TRUE(all_are_right(table));
  redis_.call({"DEL", "emblem_lock{tables.m}"});
  EXPECT_TRUE(becomes_true([&] { return table.lost_parts() == 0; }));
  EXPECT_TRUE(all_are_right(table));
}

TEST_F(RedisGuardTest, RowsThatAreDeletedOrDamagedOneByOneAreFilledAgain) {
  ParameterServer server(config());
  const auto model = server.load_model("m", 1, tables());
  ServedTable& table = model->table("a");
  const int64_t gone = 17, damaged = 18;
  const auto field = [](const int64_t& key) {
    return std::string_view(reinterpret_cast<const char*>(&key), 8);
  };
  redis_.call({"HDEL", hash(table.l2()->partition_of(gone)), field(gone)});
  EXPECT_TRUE(becomes_true([&] { return table.parts_refilled() == 1; }));
  EXPECT_TRUE(all_are_right(table));
  redis_.call({"HSET", hash(table.l2()->partition_of(damaged)), field(damaged), "abc"});
  EXPECT_TRUE(all_are_right(table));
  EXPECT_GE(table.rows_damaged(), 1u);
  EXPECT_TRUE(becomes_true([&] { return table.parts_refilled() == 2; }));
  EXPECT_TRUE(all_are_right(table));
}

TEST_F(RedisGuardTest, DeltasAreAppliedAgainToAPartitionThatWasLost) {
  ParameterServer server(config());
  const auto model = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), std::chrono::milliseconds(20));
  write(1, {1}, 11);
  const auto reads = [&](float value) {
    return becomes_true([&] {
      try {
        return lookup(model->table("a"), {1})[0] == value;
      } catch (const Error&) {
        return false;
      }
    });
  };
  EXPECT_TRUE(reads(11));
  redis_.call({"DEL", hash(model->table("a").l2()->partition_of(1))});
  EXPECT_TRUE(becomes_true([&] { return model->table("a").parts_refilled() == 1; }));
  EXPECT_TRUE(reads(11));
}

#ifdef EMBLEM_WITH_ROCKSDB

// L3 may be ahead of Redis: a partition that is filled from it does not bring the others its
// deltas.
TEST_F(RedisGuardTest, RowsThatStayedGetTheDeltasThatTheyLack) {
  PsConfig both = config();
  both.persistent_db = on_disk().persistent_db;
  ParameterServer server(both);
  const auto model = server.load_model("m", 1, tables());
  ServedTable& table = model->table("a");
  server.watch_deltas("m", deltas(), kNever);
  redis_.call({"SET", "emblem_lock{tables.m}", "another server"});  // Redis gets no deltas
  int64_t other = 2;  // in another partition than key 1
  while (table.l2()->partition_of(other) == table.l2()->partition_of(1)) ++other;
  write(1, {1, other}, 11);
  server.look_for_deltas("m");
  redis_.call({"DEL", hash(table.l2()->partition_of(1))});
  EXPECT_TRUE(becomes_true([&] { return table.lost_parts() == 1; }));
  redis_.call({"DEL", "emblem_lock{tables.m}"});
  EXPECT_TRUE(becomes_true([&] { return table.lost_parts() == 0; }));
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(table, {1, other}), ElementsAre(11, 11, 11, 11));
}

TEST_F(RedisGuardTest, WithRowsOnDiskNoRequestFails) {
  PsConfig both = config();
  both.persistent_db = on_disk().persistent_db;
  ParameterServer server(both);
  const auto model = server.load_model("m", 1, tables());
  ServedTable& table = model->table("a");
  const int64_t damaged = 18;
  for (size_t part = 0; part < 4; ++part) {
    redis_.call({"DEL", hash(part)});
    EXPECT_EQ(lookup(table, keys_)[2 * 99], 99.0f);
  }
  EXPECT_TRUE(becomes_true([&] { return table.lost_parts() == 0 && table.parts_refilled() >= 4; }));
  redis_.call({"HSET",
               hash(table.l2()->partition_of(damaged)),
               {reinterpret_cast<const char*>(&damaged), 8},
               "abc"});
  EXPECT_THAT(lookup(table, {18, 19}), ElementsAre(18, 18, 19, 19));
  redis_.call({"DEL", hash(0)});
  redis_.call({"SET", hash(0), "something else"});
  EXPECT_TRUE(all_are_right(table));
}

#endif

TEST(FileRowsTest, FindsRowsInFilesInAnyOrder) {
  const TempFolder folder;
  const std::vector<int64_t> orders[] = {{-5, 0, 3, 3, 9}, {9, 3, -5, 0, 3}};
  for (size_t n = 0; n < 2; ++n) {
    const std::string path = cat(n, "/");
    std::vector<float> rows;
    for (size_t i = 0; i < 5; ++i) rows.push_back(static_cast<float>(i));
    const auto bytes = [](const auto& values) {
      return std::string(reinterpret_cast<const char*>(values.data()),
                         values.size() * sizeof(values[0]));
    };
    folder.write(path + "key", bytes(orders[n]));
    folder.write(path + "emb_vector", bytes(rows));
    const FileRows files(folder.path(cat(n)), 1, [](int64_t key) { return key != 0; });
    std::vector<float> got(4, -1);
    std::vector<uint8_t> found(4);
    EXPECT_EQ(files.fetch(std::vector<int64_t>{3, 9, 4, -5}, got, found), 3);
    const std::vector<float> expected =
        n == 0 ? std::vector<float>{3, 4, -1, 0} : std::vector<float>{4, 0, -1, 2};
    EXPECT_EQ(got, expected);
    EXPECT_THAT(found, ElementsAre(1, 1, 0, 1));
    EXPECT_FALSE(files.covers(0));
  }
}

}  // namespace
}  // namespace emblem

#endif
