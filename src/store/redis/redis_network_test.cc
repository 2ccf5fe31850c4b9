// What happens between a client and Redis: names that do not resolve, dead addresses, lost replies,
// the number of round trips, locks.
#include "store/redis/redis_store.h"

#ifdef EMBLEM_WITH_REDIS

#include <gmock/gmock.h>

#include <condition_variable>
#include <cstring>
#include <thread>

#include "core/threads/becomes_true_test.h"
#include "store/redis/redis_cluster.h"
#include "store/redis/redis_server_test.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

SocketAddress local_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  SocketAddress result{.size = sizeof(address)};
  std::memcpy(&result.bytes, &address, sizeof(address));
  return result;
}

// An address that never answers: its queue of connections is full.
class SilentAddress {
 public:
  SilentAddress() : listener_(socket(AF_INET, SOCK_STREAM, 0)), port_(free_port()) {
    const SocketAddress address = local_address(port_);
    const auto* to = reinterpret_cast<const sockaddr*>(&address.bytes);
    EXPECT_EQ(bind(listener_, to, address.size), 0);
    EXPECT_EQ(listen(listener_, 0), 0);
    for (int i = 0; i < 8; ++i) {
      waiting_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      connect(waiting_.back(), to, address.size);
    }
  }
  ~SilentAddress() {
    for (const int fd : waiting_) close(fd);
    close(listener_);
  }
  int port() const { return port_; }

 private:
  int listener_, port_;
  std::vector<int> waiting_;
};

class RedisNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    EMBLEM_SKIP_WITHOUT_REDIS();
    ASSERT_TRUE(server_.wait());
  }
  // Settings of a host whose addresses are these.
  RedisSettings settings(std::vector<int> ports) const {
    RedisSettings settings = server_.settings();
    settings.endpoints = {{"redis.example", 6379}};
    settings.resolve = [ports = std::move(ports)](const std::string&, int) {
      std::vector<SocketAddress> addresses;
      for (const int port : ports) addresses.push_back(local_address(port));
      return addresses;
    };
    return settings;
  }

  RedisServer server_;
};

TEST_F(RedisNetworkTest, ALookupOfTheHostThatHangsEndsByTheDeadlineAndIsNotRepeated) {
  struct Names {
    std::mutex mutex;
    std::condition_variable changed;
    bool answer = false;
    int asked = 0;
  };
  const auto names = std::make_shared<Names>();  // its thread may outlive the store
  RedisSettings settings = server_.settings();
  settings.endpoints = {{"redis.example", 6379}};
  settings.connect_timeout_ms = 20;
  settings.resolve = [names, port = server_.endpoint().port](const std::string&, int) {
    std::unique_lock lock(names->mutex);
    ++names->asked;
    names->changed.wait(lock, [&] { return names->answer; });
    return std::vector<SocketAddress>{local_address(port)};
  };
  const auto store = make_redis_store(settings);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT([&] { store->note("n"); },
                ThrowsMessage<Error>(
                    testing::AnyOf(HasSubstr("finding the address of redis.example: timed out"),
                                   HasSubstr("it is asked again soon"))));
  }
  {
    std::lock_guard lock(names->mutex);
    EXPECT_EQ(names->asked, 1);
    names->answer = true;
  }
  names->changed.notify_all();
  EXPECT_TRUE(becomes_true([&] {
    try {
      return store->note("n") == std::nullopt;
    } catch (const Error&) {
      return false;
    }
  }));
}

TEST_F(RedisNetworkTest, AnUnknownHostIsNamed) {
  RedisSettings settings = server_.settings();
  settings.endpoints = {{"no-such-host.invalid", 6379}};
  EXPECT_THAT([&] { make_redis_store(settings)->note("n"); },
              ThrowsMessage<Error>(HasSubstr("finding the address of no-such-host.invalid: ")));
}

TEST_F(RedisNetworkTest, ADeadFirstAddressDoesNotUseUpTheTime) {
  const SilentAddress silent, second;
  const int closed = free_port(), alive = server_.endpoint().port;
  for (const auto& ports : {std::vector{silent.port(), alive}, std::vector{closed, alive},
                            std::vector{silent.port(), closed, second.port(), alive}}) {
    EXPECT_EQ(make_redis_store(settings(ports))->note("n"), std::nullopt);
  }
  RedisSettings dead = settings({silent.port(), closed});
  dead.connect_timeout_ms = 50;
  EXPECT_THAT([&] { make_redis_store(dead)->note("n"); },
              ThrowsMessage<Error>(HasSubstr("connecting: timed out")));
}

// Tables t0 to t4 with the keys 0 to 9, whose rows are the number of the table.
class FiveTables {
 public:
  explicit FiveTables(KvStore& store) {
    for (int t = 0; t < 5; ++t) {
      tables_.push_back(store.open(cat("t", t), 2));
      tables_[t]->insert(keys_, std::vector<float>(2 * keys_.size(), static_cast<float>(t)));
    }
  }
  void fetch() {
    std::vector<std::vector<float>> rows(5, std::vector<float>(2 * keys_.size()));
    std::vector<std::vector<uint8_t>> found(5, std::vector<uint8_t>(keys_.size()));
    std::vector<KvFetch> fetches;
    for (int t = 0; t < 5; ++t) {
      fetches.push_back(
          {.table = tables_[t].get(), .keys = keys_, .rows = rows[t], .found = found[t]});
    }
    fetch_all(fetches);
    for (int t = 0; t < 5; ++t) {
      ASSERT_FALSE(fetches[t].error) << fetches[t].error->what();
      EXPECT_EQ(fetches[t].hits, 10);
      EXPECT_EQ(rows[t], std::vector<float>(20, static_cast<float>(t)));
    }
  }

 private:
  const std::vector<int64_t> keys_ = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<std::shared_ptr<KvTable>> tables_;
};

// The proxy passes replies on only when all commands of the fetch are there.
TEST_F(RedisNetworkTest, TablesOfAServerAreFetchedInOneRoundTrip) {
  RedisProxy proxy(server_.endpoint(), free_port());
  RedisSettings settings = server_.settings();
  settings.endpoints = {proxy.endpoint()};
  const auto store = make_redis_store(settings);
  FiveTables tables(*store);
  const int64_t before = proxy.commands();
  tables.fetch();
  const int64_t commands = proxy.commands() - before;
  EXPECT_EQ(commands, 5 * 4);  // each table has keys in all of its partitions
  proxy.hold_replies_until(commands);
  tables.fetch();
}

TEST(RedisClusterNetworkTest, TablesOfAClusterAreFetchedInOneRoundTripToEachNode) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisClusterServers servers;
  const auto store = make_redis_store(servers.settings());
  FiveTables tables(*store);
  std::vector<int64_t> before, commands;
  for (int node = 0; node < 3; ++node) before.push_back(servers.proxy(node).commands());
  tables.fetch();
  for (int node = 0; node < 3; ++node)
    commands.push_back(servers.proxy(node).commands() - before[node]);
  EXPECT_EQ(commands[0] + commands[1] + commands[2], 5 * 4);
  for (int node = 0; node < 3; ++node) {
    EXPECT_GT(commands[node], 1);
    servers.proxy(node).hold_replies_until(commands[node]);
  }
  tables.fetch();
}

TEST_F(RedisNetworkTest, ATableThatCannotBeReadDoesNotSpoilTheOthers) {
  const auto store = make_redis_store(server_.settings());
  const auto a = store->open("a", 1), b = store->open("b", 1);
  a->insert(std::vector<int64_t>{1}, std::vector<float>{5});
  b->require_note("filled", "refilling");
  const std::vector<int64_t> keys = {1};
  std::vector<float> row_a(1), row_b(1);
  std::vector<uint8_t> found_a(1), found_b(1);
  KvFetch fetches[] = {{.table = a.get(), .keys = keys, .rows = row_a, .found = found_a},
                       {.table = b.get(), .keys = keys, .rows = row_b, .found = found_b}};
  fetch_all(fetches);
  EXPECT_FALSE(fetches[0].error);
  EXPECT_THAT(row_a, ElementsAre(5));
  ASSERT_TRUE(fetches[1].error);
  EXPECT_EQ(fetches[1].error->code(), ErrorCode::kUnavailable);
}

// A connection that has been used is tried again when it breaks: the command may have been
// executed.
TEST_F(RedisNetworkTest, AUseIsCountedOnceWhenTheReplyIsLost) {
  RedisProxy proxy(server_.endpoint(), free_port());
  RedisSettings settings = server_.settings();
  settings.endpoints = {proxy.endpoint()};
  settings.partitions = 1;
  settings.overflow = {100, OverflowPolicy::kEvictLeastUsed, 0.5};
  const auto table = make_redis_store(settings)->open("t", 1);
  const std::vector<int64_t> key = {7};
  table->insert(key, std::vector<float>{5});
  std::vector<float> row(1);
  std::vector<uint8_t> found(1);
  for (int i = 0; i < 3; ++i) table->fetch(key, row, found);
  proxy.lose_reply_to({"HINCRBY", "HSET"});
  table->fetch(key, row, found);
  EXPECT_TRUE(proxy.has_lost_reply());
  const std::string_view field(reinterpret_cast<const char*>(key.data()), 8);
  EXPECT_EQ(server_.call({"HGET", "hps_et{t/p0}t", field}).text, "5");  // with the insert
  proxy.lose_reply_to({"HINCRBY", "HSET"});
  table->insert(key, std::vector<float>{6});
  EXPECT_TRUE(proxy.has_lost_reply());
  EXPECT_EQ(server_.call({"HGET", "hps_et{t/p0}t", field}).text, "6");
}

class RedisLockTest : public RedisNetworkTest {
 protected:
  static constexpr milliseconds kHour{3600 * 1000};
  const std::unique_ptr<SharedKvStore> one_ = make_redis_store(server_.settings());
  const std::unique_ptr<SharedKvStore> other_ = make_redis_store(server_.settings());
};

TEST_F(RedisLockTest, OneHolderAtATime) {
  auto lock = one_->try_lock("fill", kHour);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(other_->try_lock("fill", kHour), nullptr);
  EXPECT_EQ(one_->try_lock("fill", kHour), nullptr);
  EXPECT_NE(other_->try_lock("another", kHour), nullptr);
  EXPECT_TRUE(lock->renew());
  lock.reset();
  EXPECT_NE(other_->try_lock("fill", kHour), nullptr);
}

TEST_F(RedisLockTest, OneThatIsNotRenewedIsLostAndDoesNotTouchItsSuccessor) {
  auto lock = one_->try_lock("fill", milliseconds(1));
  ASSERT_NE(lock, nullptr);
  std::unique_ptr<LeasedLock> next;
  EXPECT_TRUE(becomes_true([&] { return (next = other_->try_lock("fill", kHour)) != nullptr; }));
  EXPECT_FALSE(lock->renew());
  lock.reset();
  EXPECT_EQ(one_->try_lock("fill", kHour), nullptr);
  EXPECT_TRUE(next->renew());
}

TEST_F(RedisLockTest, ALostReplyDoesNotLoseTheLock) {
  RedisProxy proxy(server_.endpoint(), free_port());
  RedisSettings settings = server_.settings();
  settings.endpoints = {proxy.endpoint()};
  const auto store = make_redis_store(settings);
  store->note("n");  // from now on its connection has been used
  proxy.lose_reply_to({"SET"});
  const auto lock = store->try_lock("fill", kHour);
  EXPECT_TRUE(proxy.has_lost_reply());
  EXPECT_NE(lock, nullptr);
}

}  // namespace
}  // namespace emblem

#endif
