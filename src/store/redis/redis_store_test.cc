#include "store/redis/redis_store.h"

#ifdef EMBLEM_WITH_REDIS

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "store/redis/redis_cluster.h"
#include "store/redis/redis_proxy_test.h"
#include "store/redis/redis_server_test.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> row(const KvTable& table, int64_t key) {
  std::vector<float> row(table.dim());
  std::vector<uint8_t> found(1);
  table.fetch(std::vector<int64_t>{key}, row, found);
  return found[0] != 0 ? row : std::vector<float>{};
}

void put(KvTable& table, int64_t key, float value) {
  table.insert(std::vector<int64_t>{key}, std::vector<float>(table.dim(), value));
}

std::string_view bytes(const auto& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST(RedisStoreTest, AddressesAreParsed) {
  EXPECT_THAT(parse_redis_endpoints("10.0.0.1:7000, b:7001;c"),
              ElementsAre(RedisEndpoint{"10.0.0.1", 7000}, RedisEndpoint{"b", 7001},
                          RedisEndpoint{"c", 6379}));
  EXPECT_THAT([] { parse_redis_endpoints("a:b"); },
              ThrowsMessage<Error>(HasSubstr("is not a valid port")));
  EXPECT_THAT([] { parse_redis_endpoints(":1"); }, ThrowsMessage<Error>(HasSubstr("no host")));
  EXPECT_THAT([] { parse_redis_endpoints(" "); }, ThrowsMessage<Error>(HasSubstr("no address")));
}

TEST(RedisStoreTest, SlotsAreThoseOfTheClusterSpecification) {
  EXPECT_EQ(redis_slot("123456789"), 0x31c3 % kRedisSlots);
  EXPECT_EQ(redis_slot("a{123456789}b"), redis_slot("123456789"));
  EXPECT_NE(redis_slot("{}a"), redis_slot("{}b"));
}

// Both directions: what HPS wrote is read, and what is written stands where HPS looks. The
// partition of a key is rrxmrrxmsx_0(key) % partitions; its values below were computed
// independently.
TEST(RedisStoreTest, RowsStandWhereHpsPutsThem) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ASSERT_TRUE(server.wait());
  RedisSettings settings = server.settings();
  settings.row_checksums = false;
  const auto store = make_redis_store(settings);
  const auto table = store->open("hps_et.dlrm.users", 2);
  const int64_t zero = 0, one = 1;
  const float values[] = {1.5f, -2.0f};
  server.call({"HSET", "hps_et{hps_et.dlrm.users/p0}v", bytes(zero), bytes(values)});
  EXPECT_THAT(row(*table, 0), ElementsAre(1.5, -2));
  put(*table, 1, 7.0f);
  int64_t places = 0;
  for (int part = 0; part < 4; ++part) {
    const std::string hash = cat("hps_et{hps_et.dlrm.users/p", part, "}v");
    const RedisReply reply = server.call({"HGET", hash, bytes(one)});
    if (reply.kind != RedisItem::Kind::kText) continue;
    ++places;
    EXPECT_EQ(part, 3);
    const float sevens[] = {7.0f, 7.0f};
    EXPECT_EQ(reply.text, bytes(sevens));
  }
  EXPECT_EQ(places, 1);
}

TEST(RedisStoreTest, ARowOfAnotherSizeIsAnErrorNotAnAnswer) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ASSERT_TRUE(server.wait());
  const auto store = make_redis_store(server.settings());
  const auto table = store->open("t", 2);
  const int64_t zero = 0;
  server.call({"HSET", "hps_et{t/p0}v", bytes(zero), "abc"});
  EXPECT_THAT([&] { row(*table, 0); }, ThrowsMessage<Error>(HasSubstr("lost or damaged")));
  EXPECT_EQ(store->open_parts("t2", 2)->damaged(), 0u);
  EXPECT_THAT([&] { store->open("t", 2); }, ThrowsMessage<Error>(HasSubstr("has 3 bytes")));
  server.call({"SET", "hps_et{u/p0}v", "abc"});
  EXPECT_THAT([&] { store->open("u", 2); }, ThrowsMessage<Error>(HasSubstr("WRONGTYPE")));
}

TEST(RedisStoreTest, LogsInWithAPassword) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server(
      {"--requirepass", "open sesame", "--user", "reader", "on", ">secret", "~*", "+@all"});
  RedisSettings settings = server.settings();
  settings.password = "open sesame";
  ASSERT_TRUE(server.wait(settings));
  put(*make_redis_store(settings)->open("t", 1), 1, 5);
  settings.user = "reader";
  settings.password = "secret";
  EXPECT_THAT(row(*make_redis_store(settings)->open("t", 1), 1), ElementsAre(5));
  settings.password = "wrong";
  EXPECT_THAT([&] { make_redis_store(settings)->open("t", 1); },
              ThrowsMessage<Error>(HasSubstr("the login of user reader failed: WRONGPASS")));
  settings.password.clear();
  EXPECT_THAT([&] { make_redis_store(settings)->open("t", 1); },
              ThrowsMessage<Error>(HasSubstr("NOAUTH")));
}

class RedisTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    EMBLEM_SKIP_WITHOUT_REDIS();
    const std::string command =
        cat("cd ", folder_.path(), " && openssl req -x509 -newkey ec -pkeyopt ",
            "ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 ",
            "-subj /CN=cache.example -addext subjectAltName=DNS:cache.example,IP:127.0.0.1 ",
            "2>/dev/null");
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  RedisTls tls() const {
    return {true, folder_.path("cert.pem"), folder_.path("cert.pem"), folder_.path("key.pem"), ""};
  }
  TempFolder folder_;
};

TEST_F(RedisTlsTest, TalksTlsAndChecksTheCertificate) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  const std::string port = std::to_string(free_port());
  RedisServer server({"--tls-port", port, "--tls-cert-file", folder_.path("cert.pem"),
                      "--tls-key-file", folder_.path("key.pem"), "--tls-ca-cert-file",
                      folder_.path("cert.pem"), "--tls-auth-clients", "yes"});
  ASSERT_TRUE(server.wait());
  RedisSettings settings = server.settings();
  settings.endpoints = {{"127.0.0.1", std::stoi(port)}};
  settings.tls = tls();
  const auto table = make_redis_store(settings)->open("t", 5000);
  std::vector<int64_t> keys;
  std::vector<float> rows;
  for (int64_t key = 0; key < 50; ++key) {  // a megabyte: many TLS records
    keys.push_back(key);
    rows.insert(rows.end(), 5000, static_cast<float>(key));
  }
  table->insert(keys, rows);
  std::vector<float> got(rows.size());
  std::vector<uint8_t> found(keys.size());
  EXPECT_EQ(table->fetch(keys, got, found), 50);
  EXPECT_EQ(got, rows);

  settings.tls.server_name = "cache.example";
  EXPECT_EQ(make_redis_store(settings)->open("t", 5000)->size(), 50);
  settings.tls.server_name = "other.example";
  EXPECT_THAT([&] { make_redis_store(settings)->open("t", 5000); },
              ThrowsMessage<Error>(HasSubstr("the certificate is refused")));
  settings.tls = {.enabled = true};  // the system does not know this certificate
  EXPECT_THAT([&] { make_redis_store(settings)->open("t", 5000); },
              ThrowsMessage<Error>(HasSubstr("self-signed certificate")));
  settings.tls = {.enabled = true, .ca_certificate = folder_.path("none.pem")};
  EXPECT_THAT([&] { make_redis_store(settings); },
              ThrowsMessage<Error>(HasSubstr("no CA certificates can be read from")));
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

bool answers(const std::function<void()>& call) { return code_of(call) == ErrorCode::kInternal; }

TEST(RedisStoreTest, DownItFailsFastAndComesBackByItself) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server({"--appendonly", "yes", "--appendfsync", "always"});
  ASSERT_TRUE(server.wait());
  const auto table = make_redis_store(server.settings())->open("t", 2);
  put(*table, 1, 5);
  server.kill();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(code_of([&] { row(*table, 1); }), ErrorCode::kUnavailable);
    EXPECT_EQ(code_of([&] { put(*table, 1, 6); }), ErrorCode::kUnavailable);
  }
  server.start();
  ASSERT_TRUE(server.wait());
  EXPECT_TRUE(becomes_true([&] { return answers([&] { row(*table, 1); }); }));
  EXPECT_THAT(row(*table, 1), ElementsAre(5, 5));
}

TEST(RedisStoreTest, ARestartBetweenTwoCallsIsNotNoticed) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ASSERT_TRUE(server.wait());
  const auto table = make_redis_store(server.settings())->open("t", 1);
  put(*table, 1, 5);
  server.kill();
  server.start();
  ASSERT_TRUE(server.wait());
  put(*table, 1, 6);
  EXPECT_THAT(row(*table, 1), ElementsAre(6));
}

TEST(RedisStoreTest, AServerThatHangsCostsOneTimeout) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ASSERT_TRUE(server.wait());
  put(*make_redis_store(server.settings())->open("t", 1), 1, 5);
  RedisSettings settings = server.settings();
  settings.request_timeout_ms = 150;
  settings.connect_timeout_ms = 150;
  const auto store = make_redis_store(settings);
  std::shared_ptr<KvTable> table;
  ASSERT_TRUE(becomes_true([&] { return answers([&] { table = store->open("t", 1); }); }));
  server.signal(SIGSTOP);
  EXPECT_EQ(code_of([&] { row(*table, 1); }), ErrorCode::kUnavailable);  // and not never
  server.signal(SIGCONT);
  EXPECT_TRUE(becomes_true([&] { return answers([&] { row(*table, 1); }); }));
}

// After one reply that did not come, only PING asks whether the server is back.
TEST(RedisStoreTest, AServerThatHangsIsNotAskedForRowsUntilItAnswers) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ASSERT_TRUE(server.wait());
  RedisProxy proxy(server.endpoint(), free_port());
  RedisSettings settings = server.settings();
  settings.endpoints = {proxy.endpoint()};
  const auto table = make_redis_store(settings)->open("t", 1);
  put(*table, 1, 5);
  settings.request_timeout_ms = settings.connect_timeout_ms = 200;
  const auto store = make_redis_store(settings);
  std::shared_ptr<KvTable> hasty;
  ASSERT_TRUE(becomes_true([&] {
    return answers([&] {
      hasty = store->open("t", 1);
      row(*hasty, 1);
    });
  }));
  proxy.fall_silent_at("HMGET");
  EXPECT_EQ(code_of([&] { row(*hasty, 1); }), ErrorCode::kUnavailable);
  const auto asked = [&] { return proxy.commands() - proxy.commands("PING"); };
  const int64_t before = asked();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        EXPECT_EQ(code_of([&] { row(*hasty, 1); }), ErrorCode::kUnavailable);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(becomes_true([&] {  // after the pause, and not for want of trying
    EXPECT_EQ(code_of([&] { row(*hasty, 1); }), ErrorCode::kUnavailable);
    return proxy.commands("PING") > 0;
  }));
  EXPECT_EQ(asked(), before);
  proxy.speak_again();
  EXPECT_TRUE(becomes_true([&] { return answers([&] { row(*hasty, 1); }); }));
  EXPECT_THAT(row(*table, 1), ElementsAre(5));
}

TEST(RedisStoreTest, KilledAndRestartedUnderLoadItNeverAnswersWrong) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server({"--appendonly", "yes", "--appendfsync", "always"});
  ASSERT_TRUE(server.wait());
  const auto table = make_redis_store(server.settings())->open("t", 8);
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < 200; ++key) {
    keys.push_back(key);
    put(*table, key, static_cast<float>(key));
  }
  std::atomic<bool> stop{false};
  std::atomic<int64_t> wrong{0}, refused{0}, right{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      std::vector<float> rows(200 * 8);
      std::vector<uint8_t> found(200);
      while (!stop) {
        try {
          table->fetch(keys, rows, found);
          for (int64_t i = 0; i < 200 * 8; ++i) {
            wrong += found[i / 8] == 0 || rows[i] != static_cast<float>(i / 8);
          }
          ++right;
        } catch (const Error& error) {
          wrong += error.code() != ErrorCode::kUnavailable;
          ++refused;
          std::this_thread::sleep_for(milliseconds(1));
        }
      }
    });
  }
  for (int life = 0; life < 2; ++life) {
    const int64_t before = right;
    EXPECT_TRUE(becomes_true([&] { return right >= before + 20; }));
    const int64_t refused_before = refused;
    server.kill();
    EXPECT_TRUE(becomes_true([&] { return refused > refused_before; }));
    server.start();
    ASSERT_TRUE(server.wait());
  }
  const int64_t before = right;
  EXPECT_TRUE(becomes_true([&] { return right >= before + 20; }));
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

// While a slot moves, its node sends commands elsewhere: for now (ASK) and then for good (MOVED).
TEST(RedisStoreTest, FollowsSlotsThatMoveToAnotherNode) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisClusterServers servers;
  RedisSettings settings = servers.settings();
  settings.partitions = 1;
  const auto table = make_redis_store(settings)->open("t", 2);
  put(*table, 1, 5);
  const uint16_t slot = redis_slot("{t/p0}");
  const std::string number = std::to_string(slot);
  const int from = slot <= 5460 ? 0 : slot <= 10922 ? 1 : 2, to = (from + 1) % 3;
  RedisServer &source = servers.node(from), &target = servers.node(to);
  const std::string source_id = source.call({"CLUSTER", "MYID"}).text;
  const std::string target_id = target.call({"CLUSTER", "MYID"}).text;
  target.call({"CLUSTER", "SETSLOT", number, "IMPORTING", source_id});
  source.call({"CLUSTER", "SETSLOT", number, "MIGRATING", target_id});
  const std::string port = std::to_string(target.endpoint().port);
  source.call({"MIGRATE", "127.0.0.1", port, "hps_et{t/p0}v", "0", "1000"});
  EXPECT_THAT(row(*table, 1), ElementsAre(5, 5));  // ASK
  put(*table, 2, 6);
  for (int node = 0; node < 3; ++node) {
    servers.node(node).call({"CLUSTER", "SETSLOT", number, "NODE", target_id});
  }
  EXPECT_THAT(row(*table, 1), ElementsAre(5, 5));  // MOVED
  EXPECT_THAT(row(*table, 2), ElementsAre(6, 6));
}

TEST(RedisStoreTest, RowsLeaveAnOverfullPartitionByPolicy) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ASSERT_TRUE(server.wait());
  for (const auto policy : {OverflowPolicy::kEvictRandom, OverflowPolicy::kEvictLeastUsed,
                            OverflowPolicy::kEvictOldest}) {
    RedisSettings settings = server.settings();
    settings.partitions = 1;
    settings.overflow = {100, policy, 0.5};
    int64_t now = 1'700'000'000;
    settings.unix_seconds = [&now] { return now; };
    const auto table = make_redis_store(settings)->open(cat("t", static_cast<int>(policy)), 1);
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < 100; ++key) keys.push_back(key);
    table->insert(keys, std::vector<float>(100, 1.0f));
    EXPECT_EQ(table->size(), 100);
    ++now;
    for (int64_t key = 60; key < 80; ++key) row(*table, key);
    put(*table, 100, 1);
    EXPECT_EQ(table->size(), 50);
    if (policy == OverflowPolicy::kEvictRandom) continue;
    for (int64_t key = 60; key < 80; ++key) EXPECT_FALSE(row(*table, key).empty()) << key;
  }
}

// Rows on their way from a slower tier must not replace what another server has written.
TEST(RedisStoreTest, InsertMissingReplacesNoRow) {
  EMBLEM_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ASSERT_TRUE(server.wait());
  const auto table = make_redis_store(server.settings())->open("t", 1);
  put(*table, 1, 5);
  table->insert_missing(std::vector<int64_t>{1, 2}, std::vector<float>{6, 7});
  EXPECT_THAT(row(*table, 1), ElementsAre(5));
  EXPECT_THAT(row(*table, 2), ElementsAre(7));
}

TEST(RedisStoreTest, SettingsThatCannotWorkAreRefused) {
  RedisSettings settings{.endpoints = {{"127.0.0.1", 1}}};
  settings.max_batch = 300000;
  EXPECT_THAT([&] { make_redis_store(settings); },
              ThrowsMessage<Error>(HasSubstr("1 to 262143 keys")));
  settings = {.endpoints = {{"127.0.0.1", 1}}, .connections_per_node = 0};
  EXPECT_THAT([&] { make_redis_store(settings); }, ThrowsMessage<Error>(HasSubstr("at least 1")));
  EXPECT_THAT([] { make_redis_store({}); }, ThrowsMessage<Error>(HasSubstr("no address")));
}

}  // namespace
}  // namespace emblem

#endif
