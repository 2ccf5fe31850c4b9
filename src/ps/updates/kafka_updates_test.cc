// Updates from Kafka, by brokers that live in this process.
#include "ps/updates/kafka_updates.h"

#ifdef EMBLEM_WITH_KAFKA

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <span>

#include "kafka/producer.h"
#include "ps/updates/update_intake.h"
#include "ps/updates/update_message.h"
#include "ps/updates/updates_test.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

TEST(KafkaTopics, HaveTheNamesThatKafkaAllows) {
  EXPECT_TRUE(is_topic("hps_et.model-1.C1_emb"));
  EXPECT_TRUE(is_topic(std::string(249, 't')));
  EXPECT_FALSE(is_topic(std::string(250, 't')));
  EXPECT_FALSE(is_topic("hps_et.m.Größe_emb"));
  EXPECT_FALSE(is_topic("hps_et.m.a b"));
}

class KafkaTest : public UpdatesTest {
 protected:
  PsConfig with_kafka(PsConfig config = {}) const {
    config.update_source.type = PsUpdateSource::Type::kKafka;
    config.update_source.brokers = producer_.brokers();
    config.update_source.failure_backoff_ms = 5;
    config.update_source.metadata_refresh_interval_ms = 200;
    return config;
  }
  // Rows of two floats, in messages of up to 600 keys, as trainers send them.
  void post(const std::vector<int64_t>& keys, float value,
            const std::string& topic = "hps_et.m.a") {
    constexpr size_t kMostKeys = 600;
    for (size_t at = 0; at < keys.size(); at += kMostKeys) {
      const auto part = std::span(keys).subspan(at, std::min(kMostKeys, keys.size() - at));
      const std::string message =
          make_update_message(part, std::vector<float>(part.size() * 2, value), 2, 8);
      producer_.send(topic, message, "k", {kUpdateChecksumHeader, update_checksum(message)});
    }
    producer_.flush(milliseconds(10000));
  }
  static bool reads(ServedModel& model, int64_t key, float value) {
    return becomes_true([&] { return lookup(model.table("a"), {key})[0] == value; });
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
  EXPECT_TRUE(model->freshness().age_seconds.has_value());
  EXPECT_EQ(model->freshness().rows, 4951u);
  EXPECT_GE(server.kafka_counts().messages, 9u);
}

TEST_F(KafkaTest, DamagedMessagesAreCountedAndSkipped) {
  ParameterServer server(with_kafka());
  const auto model = server.load_model("m", 1, tables());
  const std::vector<int64_t> keys = {1};
  const std::string message = make_update_message(keys, std::vector<float>{11, 11}, 2, 8);
  std::string damaged = message;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  const std::string checksum = update_checksum(message);
  producer_.send("hps_et.m.a", damaged, "k", {kUpdateChecksumHeader, checksum});
  EXPECT_TRUE(becomes_true([&] { return server.kafka_counts().refused == 1; }));
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(1, 1));
  producer_.send("hps_et.m.a", message, "k", {kUpdateChecksumHeader, checksum});
  EXPECT_TRUE(reads(*model, 1, 11));
  // HPS's messages have no header.
  producer_.send("hps_et.m.a", make_update_message(keys, std::vector<float>{12, 12}, 2, 8), "k");
  EXPECT_TRUE(reads(*model, 1, 12));
  EXPECT_EQ(server.kafka_counts().refused, 1u);
  EXPECT_EQ(server.kafka_counts().unchecked, 1u);
}

TEST_F(KafkaTest, RowsThatAreNaNAreNotApplied) {
  ParameterServer server(with_kafka());
  const auto model = server.load_model("m", 1, tables());
  const float nan = std::nanf("");
  const std::string message =
      make_update_message(std::vector<int64_t>{1, 2}, std::vector<float>{nan, 1, 12, 12}, 2, 8);
  producer_.send("hps_et.m.a", message, "k");
  EXPECT_TRUE(reads(*model, 2, 12));
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(1, 1));
  EXPECT_EQ(model->table("a").rows_refused(), 1u);
}

TEST_F(KafkaTest, MessagesThatAreNoUpdatesAreCountedAndSkipped) {
  ParameterServer server(with_kafka());
  const auto model = server.load_model("m", 1, tables());
  producer_.send("hps_et.m.a", "nonsense");
  producer_.send("hps_et.m.a",
                 make_update_message(std::vector<int64_t>{1}, std::vector<float>{1, 2, 3}, 3, 8));
  EXPECT_TRUE(becomes_true([&] { return server.kafka_counts().refused == 2; }));
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
  EXPECT_TRUE(becomes_true([&] { return seen == 12; }));
  EXPECT_EQ(updates.counts().retries, 5u);
  EXPECT_EQ(updates.counts().messages, 1u);
}

TEST_F(KafkaTest, WhateverApplyingThrowsDoesNotEndTheReading) {
  std::atomic<int> calls{0};
  std::atomic<float> seen{0};
  KafkaUpdates updates({.source = with_kafka().update_source, .group = "g"},
                       [&](const std::string&, std::span<const int64_t>,
                           std::span<const float> rows, int64_t, int64_t) {
                         switch (++calls) {
                           case 1:
                             throw std::bad_alloc();  // passes: tried again
                           case 2:
                             throw std::runtime_error("the table broke");  // skipped
                           case 3:
                             throw 7;
                           default:
                             seen = rows[0];
                         }
                       });
  updates.set_topics({"hps_et.m.a"});
  post({1}, 12);
  EXPECT_TRUE(becomes_true([&] { return updates.counts().refused == 1; }));
  post({1}, 13);
  EXPECT_TRUE(becomes_true([&] { return updates.counts().refused == 2; }));
  post({1}, 14);
  EXPECT_TRUE(becomes_true([&] { return seen == 14; }));
  EXPECT_EQ(updates.counts().retries, 1u);
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
  EXPECT_TRUE(becomes_true([&] {
    keys_of[0] = keys_of[1] = 0;
    for (int i = 1; i <= 2; ++i) {
      post(keys, 11);
      EXPECT_TRUE(becomes_true([&] { return keys_of[0] + keys_of[1] >= i * 1000; }));
    }
    return keys_of[0] + keys_of[1] == 2000;
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
    EXPECT_TRUE(becomes_true([&] { return first == 3 && updates.counts().commits > 0; }));
  }
  KafkaUpdates updates(settings, [&](auto&, auto keys, auto rows, auto, auto) {
    second += static_cast<int>(keys.size());
    last = rows[0];
  });
  updates.set_topics({"hps_et.m.a"});
  post({4}, 12);
  EXPECT_TRUE(becomes_true([&] { return last == 12; }));
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
  const auto other = server.load_model("other", 1, tables());
  post({1}, 11);
  post({1}, 12, "hps_et.other.a");
  EXPECT_TRUE(reads(*other, 1, 12));
  EXPECT_THAT(lookup(model->table("a"), {1}), ElementsAre(1, 1));
}

}  // namespace
}  // namespace emblem

#endif
