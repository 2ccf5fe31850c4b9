// Servers that share a Redis: rows and deltas are written once, whichever of them dies.
#include "ps/loading/redis_filler.h"

#include "ps/updates/updates_test.h"

#ifdef EMBLEM_WITH_REDIS

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <thread>

#include "ps/tables/database_notes.h"
#include "store/redis/redis_server_test.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// What a cache on a device is told.
struct SeenUpdates : TableCache {
  void update(std::span<const int64_t> keys, std::span<const float>) override {
    rows += keys.size();
  }
  void refresh() override {}
  size_t rows = 0;
};

class SharedRedisTest : public UpdatesTest {
 protected:
  void SetUp() override {
    EMBLEM_SKIP_WITHOUT_REDIS();
    ASSERT_TRUE(redis_.wait());
  }
  PsConfig config(RedisEndpoint endpoint) const {
    PsConfig config;
    config.volatile_db.type = PsVolatile::Type::kRedis;
    config.volatile_db.address = endpoint.text();
    config.volatile_db.num_partitions = 2;
    config.volatile_db.connect_timeout_ms = 60'000;  // time for any machine
    config.volatile_db.request_timeout_ms = 60'000;
    return config;
  }
  PsConfig config() const { return config(redis_.endpoint()); }
  PsConfig config_on_disk(const std::string& name) const {
    PsConfig both = config();
    both.persistent_db = on_disk(name).persistent_db;
    return both;
  }
  // Commands of that name since the server was started.
  int64_t calls(const std::string& command) {
    const std::string text = redis_.call({"INFO", "commandstats"}).text;
    const size_t at = text.find(cat("cmdstat_", command, ":calls="));
    return at == std::string::npos ? 0 : std::atoll(text.c_str() + text.find('=', at) + 1);
  }
  static bool answers(ServedModel& model, int64_t key, float value) {
    return becomes_true([&] {
      try {
        return lookup(model.table("a"), {key})[0] == value;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
        return false;
      }
    });
  }

  RedisServer redis_;
};

TEST_F(SharedRedisTest, ServersThatStartTogetherFillItOnce) {
  const auto sources = tables();
  ParameterServer one(config()), two(config()), three(config());
  std::vector<std::thread> loading;
  for (ParameterServer* server : {&one, &two, &three})
    loading.emplace_back([&, server] { server->load_model("m", 1, sources); });
  for (std::thread& thread : loading) thread.join();
  EXPECT_EQ(calls("hset"), 2);  // a command for each partition
  for (ParameterServer* server : {&one, &two, &three})
    EXPECT_THAT(lookup(server->find("m", 1)->table("a"), {7}), ElementsAre(7, 7));
}

TEST_F(SharedRedisTest, WhatItHasLostIsFilledOnce) {
  const auto sources = tables();
  ParameterServer one(config()), two(config());
  const auto model = one.load_model("m", 1, sources), same = two.load_model("m", 1, sources);
  redis_.kill();
  redis_.start();
  ASSERT_TRUE(redis_.wait());
  EXPECT_TRUE(answers(*model, 7, 7));
  EXPECT_TRUE(answers(*same, 7, 7));
  // Both have looked since.
  const int64_t looks = calls("get");
  EXPECT_TRUE(becomes_true([&] { return calls("get") >= looks + 8; }));
  EXPECT_EQ(calls("hset"), 2);
}

// The lock of a server that has died is left; it expires.
TEST_F(SharedRedisTest, ADeadFillerHoldsUpTheOthersForAWhileOnly) {
  redis_.call({"SET", "emblem_lock{tables.m}", "a server that died", "PX", "1500"});
  redis_.call({"SET", "emblem_note{loaded.hps_et.m.a}", kRefilling});
  ParameterServer server(config());
  const auto model = server.load_model("m", 1, tables());
  EXPECT_THAT(lookup(model->table("a"), {7}), ElementsAre(7, 7));
  EXPECT_EQ(calls("hset"), 2);
}

// Not a test of its own: what AFillerThatIsKilled starts in a process of its own, and kills.
TEST_F(SharedRedisTest, DISABLED_FillsUntilItIsKilled) {
  const char* address = std::getenv("EMBLEM_KILLED_FILLER");
  if (address == nullptr) GTEST_SKIP();
  const std::string folder = std::getenv("EMBLEM_KILLED_FOLDER");
  ParameterServer server(config(parse_redis_endpoints(address)[0]));
  server.load_model("m", 1, std::vector<TableSource>{{"a", folder, 2}});
}

TEST_F(SharedRedisTest, AFillerThatIsKilledIsReplaced) {
  const auto sources = tables();
  RedisProxy proxy(redis_.endpoint(), free_port());
  proxy.fall_silent_at("HSET");  // its server waits there
  const std::string address = proxy.endpoint().text();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("EMBLEM_KILLED_FILLER", address.c_str(), 1);
    setenv("EMBLEM_KILLED_FOLDER", sources[0].folder.c_str(), 1);
    if (freopen("/dev/null", "w", stdout) == nullptr) _exit(1);
    unsetenv("GTEST_TOTAL_SHARDS");  // this case, in whichever process
    unsetenv("GTEST_SHARD_INDEX");
    execl("/proc/self/exe", "ps_test", "--gtest_also_run_disabled_tests",
          "--gtest_filter=SharedRedisTest.DISABLED_FillsUntilItIsKilled", nullptr);
    _exit(127);
  }
  EXPECT_TRUE(becomes_true([&] { return proxy.commands("HSET") > 0; }));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ParameterServer server(config());
  EXPECT_EQ(server.load_model("m", 1, sources)->table("a").l2()->size(), 100);
  const auto model = server.find("m", 1);
  for (const int64_t key : {0, 50, 99})
    EXPECT_EQ(lookup(model->table("a"), {key})[0], static_cast<float>(key));
}

TEST_F(SharedRedisTest, WithRowsOnDiskAServerDoesNotWaitForAnotherThatFills) {
  redis_.call({"SET", "emblem_lock{tables.m}", "another server"});  // forever
  ParameterServer server(config_on_disk("rocks"));
  const auto model = server.load_model("m", 1, tables());
  EXPECT_THAT(lookup(model->table("a"), {7}), ElementsAre(7, 7));  // from L3
  EXPECT_EQ(calls("hset"), 0);
  redis_.call({"DEL", "emblem_lock{tables.m}"});  // it has died: this one takes over
  EXPECT_TRUE(becomes_true([&] { return calls("hset") == 2; }));
}

TEST_F(SharedRedisTest, ADeltaIsWrittenOnceAndReachesTheCachesOfAllServers) {
  const auto sources = tables();
  ParameterServer one(config()), two(config());
  const auto model = one.load_model("m", 1, sources), same = two.load_model("m", 1, sources);
  SeenUpdates cache;
  same->table("a").add_cache(&cache);
  for (ParameterServer* server : {&one, &two}) server->watch_deltas("m", deltas(), kNever);
  write(1, {1}, 11);
  write(2, {2, 3}, 12);
  const int64_t before = calls("hset");
  for (ParameterServer* server : {&one, &two}) server->look_for_deltas("m");
  const int64_t written = calls("hset") - before;
  EXPECT_LE(written, 1 + 2);  // at most a command for each partition of a delta
  EXPECT_GE(written, 2);
  EXPECT_EQ(cache.rows, 3u);
  for (const auto& each : {model, same}) {
    EXPECT_EQ(each->freshness().sequence, 2);
    EXPECT_EQ(each->freshness().updates, 2u);
    EXPECT_THAT(lookup(each->table("a"), {1, 2}), ElementsAre(11, 11, 12, 12));
  }
  same->table("a").remove_cache(&cache);
  // A server that comes later finds them applied.
  ParameterServer third(config());
  EXPECT_EQ(third.load_model("m", 1, sources)->sequence(), 2);
}

TEST_F(SharedRedisTest, DeltasAreAppliedAgainToRowsThatWereLost) {
  const auto sources = tables();
  ParameterServer one(config()), two(config());
  const auto model = one.load_model("m", 1, sources), same = two.load_model("m", 1, sources);
  for (ParameterServer* server : {&one, &two})
    server->watch_deltas("m", deltas(), milliseconds(20));
  write(1, {1}, 11);
  EXPECT_TRUE(answers(*model, 1, 11));
  redis_.kill();
  redis_.start();
  ASSERT_TRUE(redis_.wait());
  EXPECT_TRUE(answers(*same, 1, 11));
  write(2, {1}, 12);
  EXPECT_TRUE(answers(*same, 1, 12));
  EXPECT_TRUE(becomes_true([&] { return model->sequence() == 2; }));
}

#ifdef EMBLEM_WITH_ROCKSDB

TEST_F(SharedRedisTest, WhileItIsDownDeltasReachTheDatabaseOnDisk) {
  ParameterServer server(config_on_disk("rocks"));
  const auto model = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), kNever);
  redis_.kill();
  write(1, {1}, 11);
  write(2, {2}, 12);
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1, 2}), ElementsAre(11, 11, 12, 12));
  EXPECT_GE(model->freshness().errors, 1u);
  redis_.start();
  ASSERT_TRUE(redis_.wait());
  const std::string name = "hps_et.m.a";
  EXPECT_TRUE(becomes_true([&] {
    server.look_for_deltas("m");
    return model->sequence() == 2;
  }));
  std::vector<float> row(2);
  std::vector<uint8_t> found(1);
  model->table("a").l2()->fetch(std::vector<int64_t>{1}, row, found);
  EXPECT_THAT(row, ElementsAre(11, 11));
}

#endif

TEST_F(SharedRedisTest, AModelOfManyTablesIsReadInOneRoundTrip) {
  RedisProxy proxy(redis_.endpoint(), free_port());
  PsConfig slow = config(proxy.endpoint());
  ParameterServer server(slow);
  std::vector<TableSource> sources;
  for (int t = 0; t < 6; ++t) {
    const std::string name = cat("t", t);
    sources.push_back({.name = name,
                       .folder = write_ramp(folder_, name, 0, 100, 2, static_cast<float>(t)),
                       .dim = 2});
  }
  const auto model = server.load_model("m", 1, sources);
  std::vector<ServedFeature> features;
  for (const TableSource& source : sources) features.push_back({&model->table(source.name)});
  const auto lookup = make_served_lookup(features);
  const std::vector<int64_t> keys = {1, 2, 3, 4};
  const std::vector<FeatureKeys> batch(6, {{keys.data(), 4}, {}, {}});
  std::vector<float> out(4 * 12);
  const auto forward = [&] {
    lookup->forward({}, batch, Phase::kEval, View<float>{out.data(), 4, 12});
  };
  const auto commands = [&] { return proxy.commands("HMGET"); };
  const int64_t before = commands();
  forward();
  const int64_t fetches = commands() - before;
  EXPECT_GE(fetches, 6);
  // Each table's note is asked for, too. The watching of Redis asks for notes at any time, so more
  // commands may come than are waited for, but never fewer.
  proxy.hold_replies_until(fetches + 6);
  forward();
  for (int t = 0; t < 6; ++t)
    EXPECT_EQ(out[static_cast<size_t>(2 * t)], 1.0f + static_cast<float>(t));
}

}  // namespace
}  // namespace emblem

#endif
