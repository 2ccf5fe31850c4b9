#include "ps/parameter_server.h"

#include <gmock/gmock.h>

#include "core/threads/becomes_true_test.h"
#include "ps/tables/served_test.h"
#include "store/redis/redis_server_test.h"
#include "store/rocksdb_store.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ParameterServerTest : public testing::Test {
 protected:
  // A model with the tables a (dim 2) and b (dim 1), rows 0 to 99.
  std::vector<TableSource> sources(const std::string& version, float add = 0.0f) {
    return {{.name = "a", .folder = write_ramp(folder_, version + "/a", 0, 100, 2, add), .dim = 2},
            {.name = "b",
             .folder = write_ramp(folder_, version + "/b", 0, 100, 1, add),
             .dim = 1,
             .missing = {Initializer::Kind::kConstant, 7.0f, 0.0f}}};
  }
  PsConfig on_disk(PsVolatile::Type l2 = PsVolatile::Type::kHashMap) const {
    PsConfig config;
    config.volatile_db.type = l2;
    config.persistent_db = {
        .type = PsPersistent::Type::kRocksDb, .path = folder_.path("rocks"), .num_threads = 2};
    return config;
  }
  TempFolder folder_;
};

TEST_F(ParameterServerTest, ServesTheRowsOfAModelFromMemory) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, sources("1"));
  EXPECT_THAT(lookup(model->table("a"), {3, 500}), ElementsAre(3, 3, 0, 0));
  EXPECT_THAT(lookup(model->table("b"), {99, -1}), ElementsAre(99, 7));
  EXPECT_EQ(model->table("b").missing_everywhere(), 1u);
  EXPECT_EQ(model->table("a").settings().name, "hps_et.m.a");
  EXPECT_EQ(server.find("m", 1), model);
  EXPECT_EQ(server.find("m", 2), nullptr);
  EXPECT_THAT([&] { model->table("c"); },
              ThrowsMessage<Error>(HasSubstr("model m, version 1 has no table c; it has: a, b")));
}

TEST_F(ParameterServerTest, VersionsInMemoryDoNotSeeEachOther) {
  ParameterServer server;
  const auto one = server.load_model("m", 1, sources("1"));
  const auto two = server.load_model("m", 2, sources("2", 1000));
  EXPECT_THAT(lookup(one->table("b"), {3}), ElementsAre(3));
  EXPECT_THAT(lookup(two->table("b"), {3}), ElementsAre(1003));
  server.unload_model("m", 1);
  EXPECT_EQ(server.versions("m").size(), 1u);
  EXPECT_THAT(lookup(one->table("b"), {3}), ElementsAre(3));  // those who hold it may continue
}

TEST_F(ParameterServerTest, TablesThatWouldLoseRowsAreRefused) {
  PsConfig config;
  config.volatile_db.num_partitions = 2;
  config.volatile_db.overflow.margin = 20;
  ParameterServer server(config);
  EXPECT_THAT([&] { server.load_model("m", 1, sources("1")); },
              ThrowsMessage<Error>(AllOf(HasSubstr("hps_et.m.a"), HasSubstr("60 of its 100 rows"),
                                         HasSubstr("overflow_margin 20 in each of 2 partitions"),
                                         HasSubstr("persistent_db"))));
  EXPECT_TRUE(server.models().empty());
}

TEST_F(ParameterServerTest, RowsThatMayBeLostAreCounted) {
  PsConfig config;
  config.volatile_db.num_partitions = 2;
  config.volatile_db.overflow.margin = 20;
  config.volatile_db.overflow_may_lose_rows = true;
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, sources("1"));
  const ServedTable& table = model->table("a");
  EXPECT_EQ(table.rows_evicted(), static_cast<uint64_t>(100 - table.l2()->size()));
  EXPECT_GE(table.rows_evicted(), 60u);
}

TEST_F(ParameterServerTest, RowsBeyondTheMarginMayComeFromL3) {
  PsConfig config = on_disk();
  config.volatile_db.num_partitions = 2;
  config.volatile_db.overflow.margin = 20;
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, sources("1"));
  for (int64_t key = 0; key < 100; ++key)
    ASSERT_THAT(lookup(model->table("b"), {key}), ElementsAre(static_cast<float>(key)));
  EXPECT_GT(model->table("b").rows_evicted(), 0u);
}

TEST_F(ParameterServerTest, BadModelsAreRefusedAndNothingIsLeft) {
  ParameterServer server;
  auto tables = sources("1");
  tables[1].dim = 3;
  EXPECT_THAT([&] { server.load_model("m", 1, tables); },
              ThrowsMessage<Error>(HasSubstr("need 1200")));
  tables = sources("1");
  tables[1].name = "a";
  tables[1].dim = 1;
  EXPECT_THROW(server.load_model("m", 1, tables), Error);
  EXPECT_THAT([&] { server.load_model("a/b", 1, sources("1")); },
              ThrowsMessage<Error>(HasSubstr("the model \"a/b\" contains \"/\"")));
  EXPECT_TRUE(server.models().empty());
}

TEST_F(ParameterServerTest, TablesMayHaveAnyNameThatFeaturesMayHave) {
  ParameterServer server;
  for (const std::string& name : {std::string("Größe_emb"), std::string("日本 {a}\"x\""),
                                  std::string(200, 'n') + "_emb_wide"}) {
    auto tables = sources("1");
    tables[0].name = name;
    EXPECT_TRUE(server.load_model("m", 1, tables)->tables().contains(name)) << name;
  }
}

TEST_F(ParameterServerTest, LoadsTheModelsOfPsJson) {
  write_ramp(folder_, "x", 0, 10, 2);
  const std::string text = cat(R"({"supportlonglong": true, "models": [{"model": "wdl",
      "sparse_files": [")",
                               folder_.path("x"), R"("], "embedding_vecsize_per_table": [2],
      "maxnum_catfeature_query_per_table_per_sample": [1], "default_value_for_each_table": [2.5],
      "deployed_device_list": [0]}]})");
  ParameterServer server(parse_ps_config(text, "ps.json"));
  const auto model = server.load_model("wdl", 1);
  EXPECT_THAT(lookup(model->table("sparse_embedding0"), {3, 11}), ElementsAre(3, 3, 2.5, 2.5));
  EXPECT_THAT([&] { server.load_model("dlrm", 1); },
              ThrowsMessage<Error>(HasSubstr("ps.json describes no model dlrm")));
}

TEST_F(ParameterServerTest, DatabasesThatWereLeftOutOfTheBuildAreNamed) {
  PsConfig config = on_disk();
  if (!kHasRocksDb) {
    EXPECT_THAT([&] { ParameterServer{config}; },
                ThrowsMessage<Error>(HasSubstr("built without it")));
  }
  config = {};
  config.volatile_db.type = PsVolatile::Type::kRedis;
  if (!kHasRedis) {
    EXPECT_THAT([&] { ParameterServer{config}; },
                ThrowsMessage<Error>(HasSubstr("built without it")));
  }
}

#ifdef EMBLEM_WITH_ROCKSDB

TEST_F(ParameterServerTest, RowsOnDiskAreKeptWithTheirUpdatesAndNotLoadedAgain) {
  const auto tables = sources("1");
  for (const auto l2 : {PsVolatile::Type::kHashMap, PsVolatile::Type::kDisabled}) {
    const bool first = l2 == PsVolatile::Type::kHashMap;
    ParameterServer server(on_disk(l2));
    const auto model = server.load_model("m", 1, tables);
    // The second time, the update of the first is there, whatever L2 is filled from.
    EXPECT_THAT(lookup(model->table("b"), {3, 4}), ElementsAre(first ? 3 : 33, 4));
    model->table("b").apply(std::vector<int64_t>{3}, std::vector<float>{33});
  }
  {
    ParameterServer server(on_disk());
    const auto model = server.load_model("m", 1, tables);
    EXPECT_THAT(lookup(model->table("b"), {3}), ElementsAre(33));  // L2 from L3, not the files
  }
  ParameterServer server(on_disk());
  const auto other = server.load_model("m", 2, sources("2", 1000));  // another version: loaded
  EXPECT_THAT(lookup(other->table("b"), {3}), ElementsAre(1003));
  EXPECT_EQ(other->table("b").l3()->size(), 100);
}

TEST_F(ParameterServerTest, RowsBeyondTheMarginComeFromDisk) {
  PsConfig config = on_disk();
  config.volatile_db.num_partitions = 1;
  config.volatile_db.overflow = {20, OverflowPolicy::kEvictRandom, 0.5};
  config.volatile_db.cache_missed_embeddings = true;
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, sources("1"));
  ServedTable& table = model->table("b");
  EXPECT_LE(table.l2()->size(), 20);
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < 110; ++key) keys.push_back(key);
  const auto rows = lookup(table, keys);
  for (int64_t key = 0; key < 110; ++key) EXPECT_EQ(rows[key], key < 100 ? key : 7);
  EXPECT_EQ(table.missing_everywhere(), 10u);
  EXPECT_GE(table.l3_counts().hits, 80u);
  server.promotions().wait_until_empty();
  EXPECT_LE(table.l2()->size(), 20);
}

TEST_F(ParameterServerTest, AReadOnlyDatabaseIsServedAsItIs) {
  const auto tables = sources("1");
  { ParameterServer(on_disk()).load_model("m", 1, tables); }
  PsConfig config = on_disk();
  config.persistent_db.read_only = true;
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, sources("2", 1000));
  EXPECT_THAT(lookup(model->table("b"), {3}), ElementsAre(3));
  model->table("b").apply(std::vector<int64_t>{3}, std::vector<float>{33});  // into L2 alone
  EXPECT_THAT(lookup(model->table("b"), {3}), ElementsAre(33));
}

TEST_F(ParameterServerTest, RefreshBringsTheRowsOfTheDatabaseIntoMemory) {
  ParameterServer server(on_disk());
  const auto model = server.load_model("m", 1, sources("1"));
  model->table("b").l3()->insert(std::vector<int64_t>{3}, std::vector<float>{33});
  EXPECT_THAT(lookup(model->table("b"), {3}), ElementsAre(3));
  server.refresh("m");
  EXPECT_THAT(lookup(model->table("b"), {3}), ElementsAre(33));
}

#endif
#if defined(EMBLEM_WITH_REDIS) && defined(EMBLEM_WITH_ROCKSDB)

TEST_F(ParameterServerTest, WithRedisDownTheDatabaseOnDiskAnswersAndWithoutItLookupsFail) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer redis;
  ASSERT_TRUE(redis.wait());
  PsConfig config = on_disk(PsVolatile::Type::kRedis);
  config.volatile_db.address = redis.endpoint().text();
  config.volatile_db.num_partitions = 2;
  config.volatile_db.request_timeout_ms = 60'000;  // time for any machine
  const auto tables = sources("1");
  const auto check = [&](ServedTable& table, bool survives) {
    EXPECT_THAT(lookup(table, {3, 200}), ElementsAre(3, 7));
    EXPECT_EQ(table.l2_counts().hits, 1u);
    redis.kill();
    if (survives) {
      EXPECT_THAT(lookup(table, {3, 200, 4}), ElementsAre(3, 7, 4));
    } else {
      try {
        lookup(table, {3});
        FAIL() << "answered without anything to answer from";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      }
    }
    EXPECT_GE(table.l2_counts().errors, 1u);
    redis.start();  // empty: what it had is gone
    ASSERT_TRUE(redis.wait());
  };
  {
    ParameterServer server(config);
    const auto model = server.load_model("m", 1, tables);
    check(model->table("b"), true);
    const uint64_t hits = model->table("b").l2_counts().hits;
    EXPECT_TRUE(becomes_true([&] {  // until Redis is asked again
      EXPECT_THAT(lookup(model->table("b"), {3, 200}), ElementsAre(3, 7));
      return model->table("b").l2_counts().hits > hits;
    }));
  }
  config.persistent_db.type = PsPersistent::Type::kDisabled;
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, tables);
  check(model->table("b"), false);
}

// It must not be mistaken for one that knows none of the keys.
TEST_F(ParameterServerTest, ARedisThatComesBackEmptyIsNotReadUntilItIsFilledAgain) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer redis;
  ASSERT_TRUE(redis.wait());
  PsConfig config;
  config.volatile_db.type = PsVolatile::Type::kRedis;
  config.volatile_db.address = redis.endpoint().text();
  config.volatile_db.num_partitions = 2;
  config.volatile_db.request_timeout_ms = 60'000;  // time for any machine
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, sources("1"));
  ServedTable& table = model->table("b");
  for (int round = 0; round < 2; ++round) {
    redis.kill();
    redis.start();
    ASSERT_TRUE(redis.wait());
    int right = 0;
    EXPECT_TRUE(becomes_true([&] {
      try {
        EXPECT_THAT(lookup(table, {3, 200}), ElementsAre(3, 7));  // never the default row of key 3
        ++right;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
      }
      return right == 20;
    }));
  }
}

TEST_F(ParameterServerTest, AnotherProcessFindsTheRowsInRedis) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer redis;
  ASSERT_TRUE(redis.wait());
  PsConfig config;
  config.volatile_db.type = PsVolatile::Type::kRedis;
  config.volatile_db.address = redis.endpoint().text();
  const auto tables = sources("1");
  ParameterServer first(config), second(config);
  const auto one = first.load_model("m", 1, tables);
  one->table("b").apply(std::vector<int64_t>{3}, std::vector<float>{33});
  const auto two = second.load_model("m", 1, tables);  // does not undo the update
  EXPECT_THAT(lookup(two->table("b"), {3, 4}), ElementsAre(33, 4));
}

#endif

}  // namespace
}  // namespace emblem
