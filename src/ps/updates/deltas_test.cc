// Deltas into tables that are read, and what is left of them after a restart.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>

#include "core/files/file.h"
#include "ps/updates/updates_test.h"
#include "store/rocksdb_store.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_TRUE(freshness.age_seconds.has_value());
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().updates, 2u);
}

TEST_F(UpdatesTest, TheFolderIsWatched) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), milliseconds(10));
  write_delta(deltas(), 1, {1}, 11);
  EXPECT_TRUE(becomes_true([&] { return model->sequence() == 1; }));
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(11, 11));
}

TEST_F(UpdatesTest, DeltasThatTheModelContainsAreSkipped) {
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

TEST_F(UpdatesTest, ABadDeltaIsNotAppliedInPartAndHoldsUpThoseAfterIt) {
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

TEST_F(UpdatesTest, DeltasWithoutChecksumsAreAppliedAndCounted) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), kNever);
  write_delta(deltas(), 1, {1}, 11);
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().unchecked, 0u);
  write_delta(deltas(), 2, {1}, 12);
  std::ofstream(list_deltas(deltas())[1].path + "/manifest.json")
      << R"({"sequence": 2, "created_unix_ms": 5, "tables": [{"name": "a", "dim": 2, "rows": 1}]})";
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(12, 12));
  EXPECT_EQ(model->freshness().unchecked, 1u);
}

TEST_F(UpdatesTest, ADamagedDeltaIsNotApplied) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), kNever);
  write(1, {1, 2}, 11);
  const std::string path = list_deltas(deltas())[0].path + "/a/emb_vector";
  const std::string whole = read_text_file(path);
  std::string damaged = whole;
  damaged[9] = static_cast<char>(damaged[9] ^ 0x10);
  std::ofstream(path, std::ios::binary) << damaged;
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1, 2}), ElementsAre(1, 1, 2, 2));
  EXPECT_EQ(model->freshness().errors, 1u);
  EXPECT_EQ(model->sequence(), 0);
  std::ofstream(path, std::ios::binary) << whole;  // copied again
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1, 2}), ElementsAre(11, 11, 11, 11));
}

TEST_F(UpdatesTest, RowsThatAreNaNOrInfiniteAreRefusedAndCounted) {
  ParameterServer server(on_disk());
  const auto model = server.load_model("m", 1, tables());
  ServedTable& table = model->table("a");
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  table.apply(std::vector<int64_t>{1, 2, 3, 4},
              std::vector<float>{nan, 5, 6, 6, 7, infinite, 8, 8});
  EXPECT_THAT(lookup(table, {1, 2, 3, 4}), ElementsAre(1, 1, 6, 6, 3, 3, 8, 8));
  EXPECT_EQ(table.rows_refused(), 2u);
  table.apply(std::vector<int64_t>{1}, std::vector<float>{nan, nan});
  EXPECT_EQ(table.rows_refused(), 3u);
}

TEST_F(UpdatesTest, RowsOfFilesThatAreNaNAreNotServed) {
  const auto sources = tables();
  std::fstream file(sources[0].folder + "/emb_vector",
                    std::ios::binary | std::ios::in | std::ios::out);
  const float nan = std::nanf("");
  file.seekp(7 * 8).write(reinterpret_cast<const char*>(&nan), sizeof nan);
  file.close();
  for (const PsConfig& config : {PsConfig{}, on_disk()}) {
    ParameterServer server(config);
    const auto model = server.load_model("m", 1, sources);
    EXPECT_THAT(lookup(model->table("a"), {6, 7, 8}), ElementsAre(6, 6, 0, 0, 8, 8));
    EXPECT_EQ(model->table("a").rows_refused(), 1u);
  }
}

TEST_F(UpdatesTest, AGapIsCountedAndTheDeltasAfterItAreApplied) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables(), 4);
  server.watch_deltas("m", deltas(), kNever);
  write(9, {1}, 19);
  write(10, {2}, 20);
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().missing_deltas, 4u);  // 5 to 8
  EXPECT_EQ(model->freshness().errors, 0u);
  EXPECT_THAT(lookup(model->table("a"), {1, 2}), ElementsAre(19, 19, 20, 20));
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().missing_deltas, 4u);
  // A version whose files contain the missing ones has no gap.
  const auto next = server.load_model("m", 2, tables(), 8);
  server.look_for_deltas("m");
  EXPECT_EQ(next->freshness().missing_deltas, 0u);
  EXPECT_EQ(next->sequence(), 10);
}

TEST_F(UpdatesTest, AGapIsCountedOnceThoughTheDeltaAfterItFailsAtFirst) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables(), 4);
  server.watch_deltas("m", deltas(), kNever);
  write_delta(deltas(), 9, {1}, 5, "a", 3);  // another dimension
  for (uint64_t look = 1; look <= 3; ++look) {
    server.look_for_deltas("m");
    EXPECT_EQ(model->freshness().errors, look);
    EXPECT_EQ(model->freshness().missing_deltas, 0u) << "delta 9 is not applied yet";
  }
  std::filesystem::remove_all(list_deltas(deltas())[0].path);
  write(9, {1}, 19);
  server.look_for_deltas("m");
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(19, 19));
  EXPECT_EQ(model->freshness().missing_deltas, 4u);  // 5 to 8
}

TEST_F(UpdatesTest, AModelThatIsUnloadedAndLoadedAgainIsStillFollowed) {
  ParameterServer server;
  server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), kNever);
  server.unload_model("m", 1);
  write(1, {1}, 11);
  const auto model = server.load_model("m", 1, tables());
  server.look_for_deltas("m");
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(11, 11));
}

TEST_F(UpdatesTest, AFolderThatCannotBeReadDoesNotEndTheWatching) {
  ParameterServer server;
  const auto model = server.load_model("m", 1, tables());
  Databases none{PsConfig{}};
  DeltaApplier applier(none);
  std::atomic<int> looks = 0;
  const DeltaWatcher watcher(
      deltas(), milliseconds(1), [&] { return server.versions("m"); }, applier,
      [&](const std::string& folder) {
        switch (++looks) {
          case 1:
            throw std::filesystem::filesystem_error("reading",
                                                    std::make_error_code(std::errc::io_error));
          case 2:
            throw std::bad_alloc();
          case 3:
            throw 7;
          default:
            return list_deltas(folder);
        }
      });
  write(1, {1}, 11);
  EXPECT_TRUE(becomes_true([&] { return model->sequence() == 1; }));
}

#ifdef EMBLEM_WITH_ROCKSDB

// Version 2 contains deltas that version 1, which is still in use, has not seen.
TEST_F(UpdatesTest, ADatabaseThatVersionsShareTakesNoOlderDelta) {
  ParameterServer server(on_disk());
  const auto one = server.load_model("m", 1, tables());
  server.watch_deltas("m", deltas(), kNever);
  write(1, {1}, 11);
  const auto two = server.load_model(
      "m", 2,
      std::vector<TableSource>{
          {.name = "a", .folder = write_ramp(folder_, "newer", 0, 100, 2, 1000), .dim = 2}},
      1);
  server.look_for_deltas("m");
  EXPECT_EQ(one->sequence(), 1);
  std::vector<float> row(2);
  std::vector<uint8_t> found(1);
  two->table("a").l3()->fetch(std::vector<int64_t>{1}, row, found);
  EXPECT_THAT(row, ElementsAre(1001, 1001));
  EXPECT_THAT(lookup(one->table("a"), {1}), ElementsAre(11, 11));  // in memory, of its own
}

TEST_F(UpdatesTest, AReadOnlyDatabaseSaysWhichDeltasItHas) {
  write(1, {1}, 11);
  const auto sources = tables();
  {
    ParameterServer server(on_disk());
    server.load_model("m", 1, sources);
    server.watch_deltas("m", deltas(), kNever);
    server.look_for_deltas("m");
  }
  write(2, {2}, 12);
  PsConfig config = on_disk();
  config.persistent_db.read_only = true;
  ParameterServer server(config);
  const auto model = server.load_model("m", 1, sources);
  EXPECT_EQ(model->sequence(), 1);
  server.watch_deltas("m", deltas(), kNever);
  server.look_for_deltas("m");
  EXPECT_EQ(model->freshness().updates, 1u);
  EXPECT_THAT(lookup(model->table("a"), {1, 2}), ElementsAre(11, 11, 12, 12));
}

TEST_F(UpdatesTest, AfterARestartDeltasContinueWhereTheDatabaseIs) {
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
      unsetenv("GTEST_TOTAL_SHARDS");  // this case, in whichever process
      unsetenv("GTEST_SHARD_INDEX");
      execl("/proc/self/exe", "ps_test", "--gtest_also_run_disabled_tests",
            "--gtest_filter=UpdatesTest.DISABLED_ServesUntilItIsKilled", nullptr);
      _exit(127);
    }
    const size_t enough = before + 1 + static_cast<size_t>(3 * life);
    EXPECT_TRUE(becomes_true([&] { return list_deltas(deltas()).size() >= enough; }));
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

}  // namespace
}  // namespace emblem
