// What every store promises, and each alone does not: one test body for all of them.
#include "store/kv_store.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "core/files/temp_folder_test.h"
#include "store/memory_store.h"
#include "store/redis/redis_server_test.h"
#include "store/redis/redis_store.h"
#include "store/rocksdb_store.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

enum class Kind { kMemory, kOnePartition, kRocksDb, kRedis, kRedisCluster };

std::vector<Kind> kinds() {
  std::vector<Kind> kinds = {Kind::kMemory, Kind::kOnePartition};
  if (kHasRocksDb) kinds.push_back(Kind::kRocksDb);
  if (kHasRedis) kinds.insert(kinds.end(), {Kind::kRedis, Kind::kRedisCluster});
  return kinds;
}

const char* name_of(Kind kind) {
  const char* names[] = {"Memory", "OnePartition", "RocksDb", "Redis", "RedisCluster"};
  return names[static_cast<int>(kind)];
}

class KvStoreTest : public testing::TestWithParam<Kind> {
 protected:
  // Servers are started once for all tests, which use tables of different names.
  static void TearDownTestSuite() {
#ifdef EMBLEM_WITH_REDIS
    server_.reset();
    cluster_.reset();
#endif
  }
  void SetUp() override {
    switch (GetParam()) {
      case Kind::kMemory:
        store_ = std::make_unique<MemoryStore>(MemorySettings{.partitions = 5});
        return;
      case Kind::kOnePartition:
        store_ = std::make_unique<MemoryStore>(MemorySettings{.partitions = 1});
        return;
      case Kind::kRocksDb:
        store_ = make_rocksdb_store({.path = folder_.path("db"), .threads = 2, .max_batch = 700});
        return;
#ifdef EMBLEM_WITH_REDIS
      case Kind::kRedis:
        EMBLEM_SKIP_WITHOUT_REDIS();
        if (server_ == nullptr) server_ = std::make_unique<RedisServer>();
        ASSERT_TRUE(server_->wait());
        use_redis(server_->settings());
        return;
      case Kind::kRedisCluster:
        EMBLEM_SKIP_WITHOUT_REDIS();
        if (cluster_ == nullptr) cluster_ = std::make_unique<RedisClusterServers>();
        use_redis(cluster_->settings());
        return;
#endif
      default:
        FAIL();
    }
  }
  void use_redis(RedisSettings settings) {
    settings.max_batch = 700;
    store_ = make_redis_store(settings);
  }
  std::shared_ptr<KvTable> table(int64_t dim) {
    static int number = 0;
    return store_->open(cat("hps_et.model.t", number++), dim);
  }

  TempFolder folder_;
  std::unique_ptr<KvStore> store_;
#ifdef EMBLEM_WITH_REDIS
  static inline std::unique_ptr<RedisServer> server_;
  static inline std::unique_ptr<RedisClusterServers> cluster_;
#endif
};
INSTANTIATE_TEST_SUITE_P(Stores, KvStoreTest, testing::ValuesIn(kinds()),
                         [](const auto& info) { return name_of(info.param); });

struct Fetched {
  std::vector<float> rows;
  std::vector<uint8_t> found;
  int64_t hits;
};

Fetched fetch(const KvTable& table, const std::vector<int64_t>& keys) {
  Fetched result{std::vector<float>(keys.size() * table.dim(), -1.0f),
                 std::vector<uint8_t>(keys.size(), 7), 0};
  result.hits = table.fetch(keys, result.rows, result.found);
  return result;
}

std::map<int64_t, std::vector<float>> content(const KvTable& table, int64_t batch) {
  std::map<int64_t, std::vector<float>> rows;
  table.iterate(batch, [&](std::span<const int64_t> keys, std::span<const float> values) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto* row = values.data() + i * table.dim();
      rows[keys[i]] = {row, row + table.dim()};
    }
  });
  return rows;
}

TEST_P(KvStoreTest, FetchesWhatWasInsertedAndSaysWhatIsMissing) {
  const auto table = this->table(2);
  table->insert(std::vector<int64_t>{5, -1, INT64_MAX, INT64_MIN, 0},
                std::vector<float>{5, 50, -1, -10, 7, 70, 8, 80, 0, 1});
  const Fetched got = fetch(*table, {0, 4, INT64_MIN, 5, INT64_MAX, -1, -2});
  EXPECT_EQ(got.hits, 5);
  EXPECT_THAT(got.found, ElementsAre(1, 0, 1, 1, 1, 1, 0));
  EXPECT_THAT(got.rows, ElementsAre(0, 1, -1, -1, 8, 80, 5, 50, 7, 70, -1, -10, -1, -1));
}

TEST_P(KvStoreTest, InsertOverwritesAndTheLastOfEqualKeysStays) {
  const auto table = this->table(1);
  table->insert(std::vector<int64_t>{1, 2, 1}, std::vector<float>{10, 20, 11});
  table->insert(std::vector<int64_t>{2}, std::vector<float>{22});
  EXPECT_THAT(fetch(*table, {1, 2, 1}).rows, ElementsAre(11, 22, 11));
  EXPECT_EQ(content(*table, 10).size(), 2u);
}

TEST_P(KvStoreTest, ErasedAndClearedRowsAreGone) {
  const auto table = this->table(1);
  table->insert(std::vector<int64_t>{1, 2, 3}, std::vector<float>{1, 2, 3});
  table->erase(std::vector<int64_t>{2, 99});
  EXPECT_THAT(fetch(*table, {1, 2, 3}).found, ElementsAre(1, 0, 1));
  table->insert(std::vector<int64_t>{2}, std::vector<float>{2.5});
  EXPECT_THAT(fetch(*table, {1, 2, 3}).rows, ElementsAre(1, 2.5, 3));
  table->clear();
  EXPECT_EQ(fetch(*table, {1, 2, 3}).hits, 0);
  EXPECT_TRUE(content(*table, 10).empty());
  table->insert(std::vector<int64_t>{3}, std::vector<float>{4});
  EXPECT_THAT(fetch(*table, {3}).rows, ElementsAre(4));
}

TEST_P(KvStoreTest, HoldsManyRowsAndIteratesOverAll) {
  const auto table = this->table(3);
  std::vector<int64_t> keys;
  std::vector<float> rows;
  for (int64_t i = 0; i < 20000; ++i) {
    keys.push_back(i * i - 7777);
    for (int d = 0; d < 3; ++d) rows.push_back(static_cast<float>(i + d));
  }
  table->bulk_insert(keys, rows);
  table->finish_bulk();
  const Fetched got = fetch(*table, keys);
  EXPECT_EQ(got.hits, 20000);
  EXPECT_EQ(got.rows, rows);
  const auto all = content(*table, 999);
  ASSERT_EQ(all.size(), 20000u);
  EXPECT_THAT(all.at(100 * 100 - 7777), ElementsAre(100, 101, 102));
}

TEST_P(KvStoreTest, TablesDoNotSeeEachOther) {
  const auto a = table(1), b = table(2);
  a->insert(std::vector<int64_t>{1}, std::vector<float>{1});
  b->insert(std::vector<int64_t>{1}, std::vector<float>{2, 3});
  EXPECT_THAT(fetch(*a, {1}).rows, ElementsAre(1));
  store_->drop(a->name());
  store_->drop("hps_et.never.was");
  EXPECT_THAT(fetch(*b, {1}).rows, ElementsAre(2, 3));
  EXPECT_EQ(fetch(*store_->open(a->name(), 1), {1}).hits, 0);
}

TEST_P(KvStoreTest, ATableIsFoundAgainAndKeepsItsDimension) {
  const auto a = table(2);
  a->insert(std::vector<int64_t>{1}, std::vector<float>{1, 2});
  EXPECT_THAT(fetch(*store_->open(a->name(), 2), {1}).rows, ElementsAre(1, 2));
  EXPECT_THROW(store_->open(a->name(), 3), Error);
}

TEST_P(KvStoreTest, BuffersOfTheWrongSizeAreRefused) {
  const auto table = this->table(2);
  const std::vector<int64_t> keys = {1, 2};
  std::vector<float> three(3), four(4);
  std::vector<uint8_t> one(1), two(2);
  EXPECT_THAT([&] { table->insert(keys, three); },
              ThrowsMessage<Error>(HasSubstr("need 4 floats")));
  EXPECT_THAT([&] { table->fetch(keys, three, two); },
              ThrowsMessage<Error>(HasSubstr("need 4 floats")));
  EXPECT_THAT([&] { table->fetch(keys, four, one); },
              ThrowsMessage<Error>(HasSubstr("1 places to say which of 2 keys")));
  table->insert({}, {});
  EXPECT_EQ(table->fetch({}, {}, {}), 0);
  EXPECT_THROW(store_->open("hps_et.m.none", 0), Error);
}

TEST_P(KvStoreTest, NotesAreKept) {
  EXPECT_EQ(store_->note(cat("n", name_of(GetParam()))), std::nullopt);
  store_->set_note("seen", "one");
  store_->set_note("seen", "two words");
  EXPECT_EQ(store_->note("seen"), "two words");
}

// Every row holds one number in all its floats. Readers must never see two in one row, nor a number
// that was never written, nor miss a key that is always there.
TEST_P(KvStoreTest, ReadersNeverSeeATornRow) {
  constexpr int64_t kKeys = 300, kDim = 24;
  const auto table = this->table(kDim);
  const auto write = [&](float number, int64_t begin, int64_t end) {
    std::vector<int64_t> keys;
    for (int64_t key = begin; key < end; ++key) keys.push_back(key);
    table->insert(keys, std::vector<float>(keys.size() * kDim, number));
  };
  write(1, 0, kKeys);
  std::atomic<bool> stop{false};
  std::atomic<int64_t> torn{0}, lost{0}, reads{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      std::vector<int64_t> keys;
      for (int64_t key = 0; key < kKeys; ++key) keys.push_back(key);
      while (!stop) {
        const Fetched got = fetch(*table, keys);
        lost += kKeys - got.hits;
        for (int64_t i = 0; i < kKeys; ++i) {
          const float* row = got.rows.data() + i * kDim;
          for (int64_t d = 1; d < kDim; ++d) torn += row[d] != row[0];
        }
        ++reads;
      }
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
  for (int64_t round = 2; std::chrono::steady_clock::now() < end; ++round) {
    write(static_cast<float>(round), 0, kKeys);
    write(static_cast<float>(round), kKeys * round, kKeys * (round + 1));  // grows meanwhile
    if (round > 4) {
      std::vector<int64_t> old;
      for (int64_t i = 0; i < kKeys; ++i) old.push_back(kKeys * (round - 2) + i);
      table->erase(old);
    }
  }
  while (reads == 0) std::this_thread::yield();
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace emblem
