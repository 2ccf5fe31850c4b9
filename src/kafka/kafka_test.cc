// Addresses of topics, and reading them by brokers that live in this process.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"
#include "kafka/address.h"
#include "kafka/producer.h"
#include "kafka/reader.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::ThrowsMessage;

std::string problem(const std::string& address) {
  try {
    parse_kafka_address(address);
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

TEST(KafkaAddresses, NameBrokersTopicAndProperties) {
  const KafkaAddress address = parse_kafka_address(
      "kafka://a:9092,b/clicks.v1?group.id=g&auto.offset.reset=latest&max_wait_ms=50&until=now"
      "&retention_gap=skip&timeout_ms=7&sasl.username=a%26b");
  EXPECT_EQ(address.brokers, "a:9092,b");
  EXPECT_EQ(address.topic, "clicks.v1");
  EXPECT_EQ(address.start, KafkaAddress::Start::kLatest);
  EXPECT_EQ(address.max_wait_ms, 50);
  EXPECT_TRUE(address.until_now);
  EXPECT_EQ(address.gap, KafkaAddress::Gap::kSkip);
  EXPECT_EQ(address.timeout_ms, 7);
  EXPECT_THAT(address.properties, ElementsAre(Pair("group.id", "g"), Pair("sasl.username", "a&b")));
  EXPECT_EQ(parse_kafka_address("kafka://a/t?start.timestamp.ms=12").start_unix_ms, 12);
}

TEST(KafkaAddresses, AreRefusedWithWhatWasExpected) {
  EXPECT_THAT(problem("kafka://a:9092"), HasSubstr("does not name one topic; expected kafka://"));
  EXPECT_THAT(problem("kafka:///t"), HasSubstr("does not name brokers"));
  EXPECT_THAT(problem("kafka://a/t?until=later"), HasSubstr("until is \"later\", expected now"));
  EXPECT_THAT(problem("kafka://a/t?auto.offset.reset=none"),
              HasSubstr("expected earliest or latest"));
  EXPECT_THAT(problem("kafka://a/t?max_wait_ms=-1"), HasSubstr("expected a number from 0 to"));
  EXPECT_THAT(problem("kafka://a/t?enable.auto.commit=true"), HasSubstr("set by Emblem itself"));
  EXPECT_THAT(problem("kafka://a/t?x"), HasSubstr("expected name=value"));
}

TEST(KafkaAddresses, TakeSecretsFromAFileAndNeverShowThem) {
  EXPECT_THAT(problem("kafka://a/t?sasl.password=hunter2"),
              AllOf(HasSubstr("sasl.password is a secret"), Not(HasSubstr("hunter2"))));
  const TempFolder folder;
  folder.write("client.properties", "# for tests\n\nsasl.password = hunter2 \r\nclient.id=me\n");
  const auto address =
      parse_kafka_address("kafka://a/t?properties=" + folder.path("client.properties"));
  EXPECT_THAT(address.properties,
              ElementsAre(Pair("sasl.password", "hunter2"), Pair("client.id", "me")));
  folder.write("bad.properties", "sasl.password hunter2\n");
  EXPECT_THAT(problem("kafka://a/t?properties=" + folder.path("bad.properties")),
              AllOf(HasSubstr("bad.properties:1: expected name=value"), Not(HasSubstr("hunter2"))));
}

TEST(KafkaAddresses, AreOfOneTopicWhateverElseTheySay) {
  EXPECT_TRUE(is_same_kafka_topic("kafka://a/t?x=1", "kafka://b,c/t"));
  EXPECT_FALSE(is_same_kafka_topic("kafka://a/t", "kafka://a/u"));
  EXPECT_FALSE(is_same_kafka_topic("kafka://a/t", "/a/t"));
}

class KafkaReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_kafka()) GTEST_SKIP() << "built without Kafka";
    producer_.emplace(KafkaProducer::with_mock_brokers(1));
    producer_->create_topic("t", 2);
  }
  KafkaAddress address(const std::string& query, const std::string& topic = "t") const {
    return parse_kafka_address("kafka://" + producer_->brokers() + "/" + topic +
                               "?fetch.wait.max.ms=10&timeout_ms=20000&" + query);
  }
  void send(int32_t partition, const std::vector<std::string>& messages) {
    for (const std::string& message : messages) producer_->send_to("t", partition, message);
    producer_->flush(std::chrono::seconds(30));
  }
  // "partition:offset:payload" of all messages up to the end.
  static std::vector<std::string> read(KafkaReader& reader) {
    std::vector<std::string> found;
    const auto take = [&](const KafkaRecord& record) {
      found.push_back(cat(record.partition, ":", record.offset, ":", record.payload));
    };
    while (reader.poll(100, take) != KafkaReader::Polled::kEnd) {
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<std::string> read(const std::string& query, std::vector<KafkaOffset> resume = {}) {
    KafkaReader reader(address("until=now&" + query), resume);
    return read(reader);
  }

  std::optional<KafkaProducer> producer_;
};

TEST_F(KafkaReaderTest, ReadsAllPartitionsFromTheBeginningOrFromGivenOffsets) {
  send(0, {"a", "b", "c"});
  send(1, {"d"});
  EXPECT_THAT(read(""), ElementsAre("0:0:a", "0:1:b", "0:2:c", "1:0:d"));
  EXPECT_THAT(read("", {{0, 2}, {1, 1}}), ElementsAre("0:2:c"));
  EXPECT_THAT(read("", {{0, 3}}), ElementsAre("1:0:d"));  // the other partition was added since
  EXPECT_THAT(read("auto.offset.reset=latest"), ElementsAre());
}

TEST_F(KafkaReaderTest, AFlushReportsMessagesThatWereRefused) {
  send(0, {"a"});
  producer_->refuse_next_messages();
  EXPECT_THAT([&] { send(1, {"b"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("1 messages were refused and are lost"),
                                         HasSubstr("topic t, partition 1"),
                                         HasSubstr("Message size too large"))));
  send(1, {"c"});  // reported once
  EXPECT_THAT(read(""), ElementsAre("0:0:a", "1:0:c"));
}

TEST_F(KafkaReaderTest, DividesPartitionsAmongReaders) {
  send(0, {"a", "b", "c"});
  send(1, {"d"});
  const std::vector<KafkaOffset> resume = {{0, 1}, {1, 0}};  // all readers know all offsets
  for (const auto& [share, start, messages] :
       {std::tuple{KafkaShare{0, 2}, KafkaOffset{0, 1}, std::vector<std::string>{"0:1:b", "0:2:c"}},
        std::tuple{KafkaShare{1, 2}, KafkaOffset{1, 0}, std::vector<std::string>{"1:0:d"}}}) {
    KafkaReader reader(address("until=now"), resume, share);
    EXPECT_THAT(reader.start(), ElementsAre(start));
    EXPECT_EQ(read(reader), messages);
    EXPECT_EQ(reader.ends().size(), 1u);
  }
  KafkaReader without(address("until=now"), resume, {2, 3});
  EXPECT_THAT(without.start(), ElementsAre());
  EXPECT_THAT(read(without), ElementsAre());
  KafkaReader endless(address(""), resume, {2, 3});
  EXPECT_EQ(endless.poll(1, [](const KafkaRecord&) {}), KafkaReader::Polled::kNothing);
}

TEST_F(KafkaReaderTest, EndsWithTheMessagesThatWereThereAtTheStart) {
  send(0, {"a"});
  KafkaReader reader(address("until=now"), {});
  send(0, {"b"});
  EXPECT_THAT(read(reader), ElementsAre("0:0:a"));
}

TEST_F(KafkaReaderTest, RefusesOffsetsThatAreNotOfTheTopic) {
  send(0, {"a"});
  EXPECT_THAT(
      [&] {
        read("", {{0, 2}});
      },
      ThrowsMessage<Error>(HasSubstr("reading continues at offset 2 of t [0], which ends "
                                     "at 1; was the topic created again?")));
  EXPECT_THAT([&] { read("", {{2, 0}}); }, ThrowsMessage<Error>(HasSubstr("has 2 partitions")));
}

TEST_F(KafkaReaderTest, SaysThatATopicDoesNotExist) {
  EXPECT_THAT([&] { KafkaReader(address("", "tt"), {}); },
              ThrowsMessage<Error>(HasSubstr("has no topic \"tt\"; did you mean \"t\"?")));
}

TEST_F(KafkaReaderTest, GivesUpOnBrokersThatDoNotAnswerAtTheStart) {
  producer_->stop_brokers();
  EXPECT_THAT([&] { KafkaReader(address("timeout_ms=300"), {}); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("no answer about topic t from "), HasSubstr("within 300 ms"))));
}

TEST_F(KafkaReaderTest, WaitsForBrokersThatGoAwayLater) {
  send(0, {"a"});
  KafkaReader reader(address("reconnect.backoff.ms=10&reconnect.backoff.max.ms=50"), {});
  std::vector<std::string> found;
  const auto take = [&](const KafkaRecord& record) { found.emplace_back(record.payload); };
  const auto read_until = [&](size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (found.size() < count && std::chrono::steady_clock::now() < deadline)
      reader.poll(50, take);
  };
  read_until(1);
  EXPECT_EQ(reader.problem(), "");
  producer_->stop_brokers();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (reader.problem().empty() && std::chrono::steady_clock::now() < deadline)
    reader.poll(50, take);
  EXPECT_NE(reader.problem(), "");
  producer_->restart_brokers();
  send(0, {"b", "c"});
  read_until(3);
  EXPECT_THAT(found, ElementsAre("a", "b", "c"));
  EXPECT_EQ(reader.problem(), "");
}

TEST_F(KafkaReaderTest, MessagesThatWereDeletedAreAnErrorOrCounted) {
  // Mock brokers keep 5 MB of a partition.
  const std::string large(900 << 10, 'x');
  send(0, {large, large, large, large, large, large, large, large});
  EXPECT_THAT(
      [&] {
        read("", {{0, 0}, {1, 0}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("messages of t [0] from offset 0 on were "
                                           "deleted before they were read"),
                                 HasSubstr("retention_gap=skip"))));
  KafkaReader reader(address("until=now&retention_gap=skip"), {{0, 0}, {1, 0}});
  EXPECT_GT(reader.lost_messages(), 0);
  EXPECT_EQ(read(reader).size() + static_cast<size_t>(reader.lost_messages()), 8u);
}

TEST_F(KafkaReaderTest, MessagesThatAreDeletedWhileItReadsAreNoticed) {
  const std::string large(900 << 10, 'x');
  send(0, {"a"});
  KafkaReader reader(address("retention_gap=skip&queued.max.messages.kbytes=1&"
                             "queued.min.messages=1&fetch.message.max.bytes=1000"),
                     {});
  std::vector<int64_t> offsets;
  const auto take = [&](const KafkaRecord& record) { offsets.push_back(record.offset); };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (offsets.empty() && std::chrono::steady_clock::now() < deadline) reader.poll(50, take);
  for (int i = 0; i < 20; ++i) send(0, {large});
  while (offsets.back() < 20 && std::chrono::steady_clock::now() < deadline) reader.poll(50, take);
  EXPECT_EQ(offsets.back(), 20);
  EXPECT_EQ(static_cast<int64_t>(offsets.size()) + reader.lost_messages(), 21);
}

}  // namespace
}  // namespace emblem
