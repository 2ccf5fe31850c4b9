// Updates while tables are read: delta folders and Kafka.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <thread>

#include "embedding/files/delta_files.h"
#include "ps/parameter_server.h"
#include "ps/tables/served_test.h"
#include "ps/updates/kafka_updates.h"
#include "ps/updates/update_message.h"
#include "store/rocksdb_store.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr milliseconds kNever{3600 * 1000};

void write_delta(const std::string& root, int64_t sequence, const std::vector<int64_t>& keys,
                 float value, const std::string& table = "a", int64_t dim = 2) {
  DeltaWriter writer(root, sequence);
  writer.add(table, dim, keys, std::vector<float>(keys.size() * dim, value));
  writer.finish();
}

// Waits for what another thread brings about.
template <class Condition>
bool soon(Condition&& condition) {
  // A minute: members of a group may have to time out before others get their partitions.
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return condition();
}

class UpdatesTest : public testing::Test {
 protected:
  std::vector<TableSource> tables() {
    return {{.name = "a", .folder = write_ramp(folder_, "a", 0, 100, 2), .dim = 2}};
  }
  PsConfig on_disk() const {
    PsConfig config;
    config.persistent_db = {
        .type = PsPersistent::Type::kRocksDb, .path = folder_.path("rocks"), .num_threads = 2};
    return config;
  }
  std::string deltas() const { return folder_.path("deltas"); }
  TempFolder folder_;
};

TEST_F(UpdatesTest, DeltasAreAppliedInOrderOnce) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables());
  EXPECT_EQ(model->freshness().age_seconds, std::nullopt);
  server.watch_deltas("m", deltas(), kNever);
  server.look_for_deltas("m");  // no folder yet
  write_delta(deltas(), 2, {1, 300}, 12);
  write_delta(deltas(), 1, {1, 2}, 11);
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1, 2, 300, 3}), ElementsAre(12, 12, 11, 11, 12, 12, 3, 3));
  const Freshness freshness = model->freshness();
  EXPECT_EQ(freshness.sequence, 2);
  EXPECT_EQ(freshness.updates, 2u);
  EXPECT_EQ(freshness.rows, 4u);
  EXPECT_LT(freshness.age_seconds.value(), 60.0);
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().updates, 2u);
}

TEST_F(UpdatesTest, TheFolderIsWatched) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), milliseconds(10));
  write_delta(deltas(), 1, {1}, 11);
  EXPECT_TRUE(soon([&] { return model->sequence() == 1; }));
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(11, 11));
}

TEST_F(UpdatesTest, DeltasThatTheModelContainsAreLeftOut) {
  ParameterServer server;
  write_delta(deltas(), 1, {1}, 11);
  write_delta(deltas(), 2, {2}, 12);
  const auto model = server.load_model("m", 1, tables(), 1);
  server.watch_deltas("m", deltas(), kNever);
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1, 2}), ElementsAre(1, 1, 12, 12));
  // A version that is loaded later takes them from where its files end.
  const auto next = server.load_model("m", 2, tables(), 0);
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(next->table("a"), {1, 2}), ElementsAre(11, 11, 12, 12));
  server.unload_model("m", 1);
  server.unload_model("m", 2);
}

TEST_F(UpdatesTest, ABadDeltaIsNotAppliedInPartAndHoldsUpThoseBehindIt) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), kNever);
  {
    DeltaWriter writer(deltas(), 1);
    writer.add("a", 2, std::vector<int64_t>{1}, std::vector<float>{11, 11});
    writer.add("zzz", 1, std::vector<int64_t>{1}, std::vector<float>{11});
    writer.finish();
  }
  write_delta(deltas(), 2, {1}, 12);
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(1, 1));
  EXPECT_EQ(model->freshness().errors, 1u);
  std::filesystem::remove_all(list_deltas(deltas())[0].path);
  write_delta(deltas(), 1, {1}, 5, "a", 3);  // another dimension
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().errors, 2u);
  EXPECT_EQ(model->sequence(), 0);
  std::filesystem::remove_all(list_deltas(deltas())[0].path);
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(12, 12));
}

#ifdef EMBLEM_WITH_ROCKSDB

TEST_F(UpdatesTest, AfterARestartDeltasGoOnWhereTheDatabaseIs) {
  write_delta(deltas(), 1, {1}, 11);
  const auto sources = tables();
  {
    ParameterServer server(on_disk());
    server.load_model("m", 1, sources);
    server.watch_deltas("m", deltas(), kNever);
    server.look_for_deltas("m");
  }
  write_delta(deltas(), 2, {2}, 12);
  ParameterServer server(on_disk());
  const auto model = server.load_model("m", 1, sources);
  EXPECT_EQ(model->sequence(), 1);
  server.watch_deltas("m", deltas(), kNever);
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().updates, 1u);
  EXPECT_THAT(lookup(model->table("a"), {1, 2}), ElementsAre(11, 11, 12, 12));
}

// Not a test of its own: what AServerKilledDuringUpdates starts in a process of its own, and kills.
TEST_F(UpdatesTest, DISABLED_ServesUntilItIsKilled) {
  const char* path = std::getenv("EMBLEM_KILLED_SERVER");
  if (path == nullptr) GTEST_SKIP();
  const std::string home = path;
  PsConfig config;
  config.persistent_db = {.type = PsPersistent::Type::kRocksDb,
                          .path = home + "/rocks",
                          .num_threads = 2,
                          .max_batch_size = 64};
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, std::vector<TableSource>{{"a", home + "/a", 32}});
  server.watch_deltas("m", home + "/deltas", kNever);
  const auto there = list_deltas(home + "/deltas");
  for (int64_t sequence = there.empty() ? 1 : there.back().sequence + 1;; ++sequence) {
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
    write_delta(home + "/deltas", sequence, keys, static_cast<float>(sequence), "a", 32);
    server.look_for_deltas("m");
    if (model->sequence() != sequence) _exit(3);
  }
}

TEST_F(UpdatesTest, AServerKilledDuringUpdatesLosesNoneAndTearsNoRow) {
  write_ramp(folder_, "a", 0, 1000, 32, -5000);
  for (int life = 0; life < 3; ++life) {
    const size_t before = list_deltas(deltas()).size();
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setenv("EMBLEM_KILLED_SERVER", folder_.path().c_str(), 1);
      if (freopen("/dev/null", "w", stdout) == nullptr) _exit(1);
      execl("/proc/self/exe", "ps_test", "--gtest_also_run_disabled_tests",
            "--gtest_filter=UpdatesTest.DISABLED_ServesUntilItIsKilled", nullptr);
      _exit(127);
    }
    EXPECT_TRUE(soon([&] { return list_deltas(deltas()).size() > before; }));
    std::this_thread::sleep_for(milliseconds(5 + 37 * life));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the server ended by itself";

    const auto store = make_rocksdb_store({.path = folder_.path("rocks"), .threads = 2});
    const auto table = store->open("hps_et.m.a", 32);
    const float noted = std::stof(store->note("sequence.m").value());
    int64_t rows = 0;
    table->iterate(100, [&](std::span<const int64_t> keys, std::span<const float> values) {
      for (size_t i = 0; i < keys.size(); ++i, ++rows) {
        const float* row = values.data() + i * 32;
        for (int d = 1; d < 32; ++d) ASSERT_EQ(row[d], row[0]) << "key " << keys[i];
        // The delta after the last that is noted may be there in part.
        ASSERT_TRUE(noted == 0 || row[0] == noted || row[0] == noted + 1) << row[0];
      }
    });
    EXPECT_EQ(rows, 1000);
  }
}

#endif
#ifdef EMBLEM_WITH_KAFKA

class KafkaTest : public UpdatesTest {
 protected:
  PsConfig with_kafka(PsConfig config = {}) const {
    config.update_source.type = PsUpdateSource::Type::kKafka;
    config.update_source.brokers = producer_.brokers();
    config.update_source.failure_backoff_ms = 5;
    config.update_source.metadata_refresh_interval_ms = 200;
    return config;
  }
  void post(const std::vector<int64_t>& keys, float value) {
    producer_.post("hps_et.m.a", keys, std::vector<float>(keys.size() * 2, value), 2);
    producer_.flush(milliseconds(10000));
  }
  static bool reads(ServedModel& model, int64_t key, float value) {
    return soon([&] { return lookup(model.table("a"), {key})[0] == value; });
  }
  KafkaProducer producer_ = KafkaProducer::with_mock_brokers(2);
};

TEST_F(KafkaTest, RowsOfMessagesAreServed) {
  ParameterServer server(with_kafka());
  const auto model = server.load_model("m", 1, tables());
  std::vector<int64_t> keys;
  for (int64_t key = 50; key < 5000; ++key) keys.push_back(key);
  post(keys, 11);
  for (const int64_t key : {50, 99, 4999}) EXPECT_TRUE(reads(*model, key, 11)) << key;
  EXPECT_THAT(lookup(model->table("a"), {49}), ElementsAre(49, 49));
  post({1}, 12);
  EXPECT_TRUE(reads(*model, 1, 12));
  EXPECT_LT(model->freshness().age_seconds.value(), 60.0);
  EXPECT_EQ(model->freshness().rows, 4951u);
  EXPECT_GE(server.kafka_counts().messages, 9u);
}

TEST_F(KafkaTest, MessagesThatMakeNoSenseAreCountedAndLeftOut) {
  ParameterServer server(with_kafka());
  const auto model = server.load_model("m", 1, tables());
  producer_.post_raw("hps_et.m.a", "nonsense");
  producer_.post_raw("hps_et.m.a", make_update_message(std::vector<int64_t>{1},
                                                       std::vector<float>{1, 2, 3}, 3, 8));
  EXPECT_TRUE(soon([&] { return server.kafka_counts().refused == 2; }));
  post({1}, 12);
  EXPECT_TRUE(reads(*model, 1, 12));
}

TEST_F(KafkaTest, AnUpdateWaitsForATierThatIsDownAndIsNotLost) {
  auto flaky = std::make_shared<std::atomic<int>>(5);
  std::atomic<float> seen{0};
  KafkaUpdates updates({.source = with_kafka().update_source, .group = "g"},
                       [&](const std::string&, std::span<const int64_t>,
                           std::span<const float> rows, int64_t, int64_t) {
                         if (flaky->fetch_sub(1) > 0) {
                           throw Error(ErrorCode::kUnavailable, "down for now");
                         }
                         seen = rows[0];
                       });
  updates.set_topics({"hps_et.m.a"});
  post({1}, 12);
  EXPECT_TRUE(soon([&] { return seen == 12; }));
  EXPECT_EQ(updates.counts().retries, 5u);
  EXPECT_EQ(updates.counts().messages, 1u);
}

TEST_F(KafkaTest, ServersWithOneDatabaseShareTheMessages) {
  std::atomic<int> keys_of[2] = {};
  std::vector<std::unique_ptr<KafkaUpdates>> servers;
  for (auto& keys_seen : keys_of) {
    servers.push_back(std::make_unique<KafkaUpdates>(
        KafkaUpdates::Settings{.source = with_kafka().update_source,
                               .group = "shared",
                               .sharing = KafkaUpdates::Sharing::kGroup},
        [&](auto&, auto keys, auto, auto, auto) { keys_seen += static_cast<int>(keys.size()); }));
    servers.back()->set_topics({"hps_et.m.a"});
  }
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  // While servers come together, what one has not committed yet is given to the other again.
  EXPECT_TRUE(soon([&] {
    keys_of[0] = keys_of[1] = 0;
    post(keys, 11);
    EXPECT_TRUE(soon([&] { return keys_of[0] + keys_of[1] >= 1000; }));
    std::this_thread::sleep_for(milliseconds(100));
    return keys_of[0] + keys_of[1] == 1000;
  }));
}

TEST_F(KafkaTest, WhatWasAppliedIsCommittedAndNotReadAgain) {
  const KafkaUpdates::Settings settings{.source = with_kafka().update_source, .group = "g"};
  std::atomic<int> first{0}, second{0};
  std::atomic<float> last{0};
  {
    KafkaUpdates updates(settings, [&](auto&, auto keys, auto, auto, auto) {
      first += static_cast<int>(keys.size());
    });
    updates.set_topics({"hps_et.m.a"});
    post({1, 2, 3}, 11);
    EXPECT_TRUE(soon([&] { return first == 3; }));
    std::this_thread::sleep_for(milliseconds(300));  // an idle moment: it commits
  }
  KafkaUpdates updates(settings, [&](auto&, auto keys, auto rows, auto, auto) {
    second += static_cast<int>(keys.size());
    last = rows[0];
  });
  updates.set_topics({"hps_et.m.a"});
  post({4}, 12);
  EXPECT_TRUE(soon([&] { return last == 12; }));
  EXPECT_EQ(second, 1);
}

TEST_F(KafkaTest, WithRowsInMemoryAloneARestartReadsAllMessagesAgain) {
  post({1}, 11);
  for (int life = 0; life < 2; ++life) {
    ParameterServer server(with_kafka());
    const auto model = server.load_model("m", 1, tables());
    EXPECT_TRUE(reads(*model, 1, 11)) << life;
  }
}

TEST_F(KafkaTest, FiltersKeepUpdatesOut) {
  PsConfig config = with_kafka();
  config.volatile_db.update_filters = {"other"};
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, tables());
  post({1}, 11);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(1, 1));
}

#endif

}  // namespace
}  // namespace emblem
