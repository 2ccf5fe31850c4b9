#include "store/rocksdb_store.h"

#ifdef EMBLEM_WITH_ROCKSDB

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/files/temp_folder_test.h"
#include "core/threads/becomes_true_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kDim = 32, kStoredKeys = 500;

class RocksDbStoreTest : public testing::Test {
 protected:
  std::unique_ptr<KvStore> open(RocksDbSettings settings = {}) {
    settings.path = folder_.path("db");
    settings.threads = 2;
    return make_rocksdb_store(settings);
  }
  TempFolder folder_;
};

std::vector<float> stored_row(const KvTable& table, int64_t key) {
  std::vector<float> row(table.dim());
  std::vector<uint8_t> found(1);
  table.fetch(std::vector<int64_t>{key}, row, found);
  return found[0] != 0 ? row : std::vector<float>{};
}

TEST_F(RocksDbStoreTest, RowsAndNotesAreThereWhenTheFolderIsOpenedAgain) {
  {
    const auto store = open();
    const auto a = store->open("a", 2), b = store->open("b", 1);
    a->insert(std::vector<int64_t>{1, -5}, std::vector<float>{1, 2, 3, 4});
    b->bulk_insert(std::vector<int64_t>{9}, std::vector<float>{9});
    b->finish_bulk();
    store->set_note("how far", "12");
  }
  const auto store = open();
  EXPECT_THAT(stored_row(*store->open("a", 2), -5), ElementsAre(3, 4));
  EXPECT_THAT(stored_row(*store->open("b", 1), 9), ElementsAre(9));
  EXPECT_EQ(store->note("how far"), "12");
  EXPECT_THAT([&] { store->open("a", 3); },
              ThrowsMessage<Error>(HasSubstr("has 8 bytes, but dimension 3 needs 12")));
}

TEST_F(RocksDbStoreTest, AReadOnlyFolderIsReadAndNeverChanged) {
  open()->open("a", 1)->insert(std::vector<int64_t>{1}, std::vector<float>{5});
  const auto store = open({.read_only = true}), second = open({.read_only = true});
  const auto table = store->open("a", 1);
  EXPECT_THAT(stored_row(*table, 1), ElementsAre(5));
  EXPECT_THAT(stored_row(*second->open("a", 1), 1), ElementsAre(5));
  const auto refused = ThrowsMessage<Error>(HasSubstr("was opened read_only"));
  EXPECT_THAT([&] { table->insert(std::vector<int64_t>{1}, std::vector<float>{6}); }, refused);
  EXPECT_THAT([&] { table->erase(std::vector<int64_t>{1}); }, refused);
  EXPECT_THAT([&] { table->clear(); }, refused);
  EXPECT_THAT([&] { store->drop("a"); }, refused);
  EXPECT_THAT([&] { store->set_note("a", "b"); }, refused);
  EXPECT_THAT([&] { store->open("new", 1); }, refused);
}

TEST_F(RocksDbStoreTest, AFolderThatIsInUseOrMissingIsRefused) {
  const auto first = open();
  try {
    open();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("give each server a folder of its own"));
  }
  EXPECT_THROW(make_rocksdb_store({.path = folder_.path("none"), .read_only = true}), Error);
  EXPECT_THROW(make_rocksdb_store({}), Error);
}

TEST_F(RocksDbStoreTest, ADamagedFolderIsRefusedWithTheRemedy) {
  open()->open("a", 1)->insert(std::vector<int64_t>{1}, std::vector<float>{5});
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path("db")))
    if (entry.path().filename().string().starts_with("MANIFEST"))
      std::ofstream(entry.path()) << "nothing of a database";
  try {
    open();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruption);
    EXPECT_THAT(error.what(),
                HasSubstr("remove it: it is then filled from the files of the models"));
  }
}

TEST_F(RocksDbStoreTest, FourByteKeysAreThoseOfHpsWithoutLongLong) {
  const auto store = open({.key_bytes = 4});
  const auto table = store->open("a", 1);
  table->insert(std::vector<int64_t>{0xffffffff, 7}, std::vector<float>{1, 2});
  EXPECT_THAT(stored_row(*table, 0xffffffff), ElementsAre(1));
  EXPECT_THAT(stored_row(*table, -1), ElementsAre());
  EXPECT_THAT(stored_row(*table, (int64_t{1} << 32) + 7), ElementsAre());
  EXPECT_THAT([&] { table->insert(std::vector<int64_t>{-1}, std::vector<float>{1}); },
              ThrowsMessage<Error>(HasSubstr("does not fit into 4 bytes")));
}

// Not a test of its own: what KilledWhileWriting starts in a process of its own, and kills.
TEST_F(RocksDbStoreTest, DISABLED_WritesUntilItIsKilled) {
  const char* path = std::getenv("EMBLEM_KILLED_STORE");
  if (path == nullptr) GTEST_SKIP();
  const int64_t rounds = std::atoll(std::getenv("EMBLEM_KILLED_AFTER"));
  const auto store = make_rocksdb_store({.path = path, .threads = 2, .max_batch = 100});
  const auto table = store->open("t", kDim);
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < kStoredKeys; ++key) keys.push_back(key);
  for (int64_t round = 1;; ++round) {
    table->insert(keys, std::vector<float>(kStoredKeys * kDim, static_cast<float>(round)));
    store->set_note("round", std::to_string(round));
    if (round == rounds) std::ofstream(std::string(path) + ".writing") << "yes";
  }
}

TEST_F(RocksDbStoreTest, KilledWhileWritingItLosesNothingThatWasNotedAndTearsNoRow) {
  const std::string path = folder_.path("db");
  for (int life = 0; life < 4; ++life) {
    std::filesystem::remove(path + ".writing");
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setenv("EMBLEM_KILLED_STORE", path.c_str(), 1);
      setenv("EMBLEM_KILLED_AFTER", std::to_string(2 + 5 * life).c_str(), 1);
      if (freopen("/dev/null", "w", stdout) == nullptr) _exit(1);
      unsetenv("GTEST_TOTAL_SHARDS");  // this case, in whichever process
      unsetenv("GTEST_SHARD_INDEX");
      execl("/proc/self/exe", "store_test", "--gtest_also_run_disabled_tests",
            "--gtest_filter=RocksDbStoreTest.DISABLED_WritesUntilItIsKilled", nullptr);
      _exit(127);
    }
    EXPECT_TRUE(becomes_true([&] { return std::filesystem::exists(path + ".writing"); }));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";

    const auto store = open();
    const auto table = store->open("t", kDim);
    const float noted = std::stof(store->note("round").value_or("0"));
    int64_t rows = 0;
    table->iterate(100, [&](std::span<const int64_t> keys, std::span<const float> values) {
      for (size_t i = 0; i < keys.size(); ++i, ++rows) {
        const float* row = values.data() + i * kDim;
        for (int64_t d = 1; d < kDim; ++d) ASSERT_EQ(row[d], row[0]) << "key " << keys[i];
        // What came after the note may be there, in part.
        ASSERT_TRUE(life > 0 || row[0] == noted || row[0] == noted + 1) << row[0];
      }
    });
    EXPECT_GE(noted, 2);
    EXPECT_EQ(rows, kStoredKeys);
  }
}

}  // namespace
}  // namespace emblem

#endif
