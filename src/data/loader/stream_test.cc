// Batches from a topic, by brokers that live in this process.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "data/loader/loader.h"
#include "data/test_data.h"
#include "emblem/error.h"
#include "kafka/address.h"
#include "kafka/producer.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string pipeline_text(const std::string& format) {
  return R"(data_config { dataset_type: KafkaDataset fg_mode: FG_DAG label_fields: "label"
                          stream_format: )" +
         format + R"( input_fields { input_name: "label" } input_fields { input_name: "x" }
                      input_fields { input_name: "id" } }
  feature_configs { raw_feature { feature_name: "x" } }
  feature_configs { id_feature { feature_name: "id" num_buckets: 100000 embedding_dim: 4 } })";
}

std::string json_row(int number) {
  return cat("{\"label\": ", number % 2, ", \"x\": ", number % 7, ", \"id\": ", number, "}");
}

class KafkaLoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_kafka()) GTEST_SKIP() << "built without Kafka";
    producer_.emplace(KafkaProducer::with_mock_brokers(1));
    producer_->create_topic("t", 1);
    producer_->create_topic("three", 3);
    options_.batch_size = 16;
    options_.workers = 2;
  }
  void send(const std::string& message, const std::string& topic = "t", int32_t partition = 0) {
    producer_->send_to(topic, partition, message);
  }
  void send_rows(int begin, int end, int rows_per_message = 1, int32_t partition = 0,
                 const std::string& topic = "t") {
    for (int i = begin; i < end; i += rows_per_message) {
      std::string message;
      for (int j = i; j < std::min(end, i + rows_per_message); ++j) message += json_row(j) + "\n";
      send(message, topic, partition);
    }
    producer_->flush(std::chrono::seconds(60));
  }
  LoaderOptions options(const std::string& query, const std::string& topic = "t") const {
    LoaderOptions options = options_;
    options.input =
        "kafka://" + producer_->brokers() + "/" + topic + "?fetch.wait.max.ms=10&" + query;
    return options;
  }
  // The numbers of all rows, in order.
  std::vector<int64_t> read(const LoaderOptions& options, const std::string& format = "JSON_ROWS") {
    const TestPipeline pipeline(pipeline_text(format));
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    std::vector<int64_t> numbers;
    batch_rows_.clear();
    positions_.clear();
    Batch batch;
    while (loader.next(batch)) {
      for (int64_t i = 0; i < batch.rows; ++i) {
        const int64_t number = batch.sparse[0].keys[static_cast<size_t>(i)];
        EXPECT_EQ(batch.labels[static_cast<size_t>(i)], static_cast<float>(number % 2));
        EXPECT_EQ(batch.dense[static_cast<size_t>(i)], static_cast<float>(number % 7));
        numbers.push_back(number);
      }
      batch_rows_.push_back(batch.rows);
      positions_.push_back(batch.next);
    }
    statistics_ = loader.statistics();
    return numbers;
  }
  static std::vector<int64_t> range(int64_t begin, int64_t end) {
    std::vector<int64_t> values;
    for (int64_t i = begin; i < end; ++i) values.push_back(i);
    return values;
  }

  std::optional<KafkaProducer> producer_;
  LoaderOptions options_;
  std::vector<int64_t> batch_rows_;
  std::vector<DataPosition> positions_;
  LoaderStatistics statistics_;
};

TEST_F(KafkaLoaderTest, GivesEveryRowOnceInTheOrderOfThePartition) {
  send_rows(0, 1000);
  EXPECT_EQ(read(options("until=now&max_wait_ms=0")), range(0, 1000));
  EXPECT_EQ(batch_rows_.size(), 63u);
  EXPECT_EQ(batch_rows_.back(), 1000 % 16);
  EXPECT_EQ(statistics_.rows, 1000);
  EXPECT_EQ(statistics_.lag.messages, 0);
  EXPECT_EQ(positions_.back().rows_in_epoch, 1000);
  EXPECT_THAT(positions_.back().stream, ElementsAre(StreamPosition{0, 1000, 0}));
}

TEST_F(KafkaLoaderTest, ASampleIsOfTheOldestMessagesAndTakesNoneAway) {
  send_rows(0, 100);
  const TestPipeline pipeline(pipeline_text("JSON_ROWS"));
  for (const char* const query : {"until=now", "auto.offset.reset=latest", "max_wait_ms=0"}) {
    const Loader loader(pipeline.config.data_config(), pipeline.features, options(query));
    int64_t rows = 0;
    loader.sample([&](const Block& block) { rows += block.rows; });
    EXPECT_EQ(rows, 100) << query;
  }
  EXPECT_EQ(read(options("until=now")), range(0, 100));
}

TEST_F(KafkaLoaderTest, ContinuesAtAnyBatchAlsoWithinMessages) {
  send_rows(0, 500, 7);
  const std::vector<int64_t> all = read(options("until=now&max_wait_ms=0"));
  EXPECT_EQ(all, range(0, 500));
  const std::vector<DataPosition> positions = positions_;
  const std::vector<int64_t> sizes = batch_rows_;
  int64_t given = 0;
  for (size_t i = 0; i < positions.size(); i += 5) {
    given = 0;
    for (size_t j = 0; j <= i; ++j) given += sizes[j];
    LoaderOptions rest = options("until=now&max_wait_ms=0");
    rest.start = positions[i];
    EXPECT_EQ(read(rest), range(given, 500)) << i;
    if (!positions_.empty()) {
      EXPECT_EQ(describe(positions_.back()), describe(positions.back()));
    }
  }
}

TEST_F(KafkaLoaderTest, ReadsAllPartitionsAndContinuesInEach) {
  for (int32_t partition = 0; partition < 3; ++partition)
    send_rows(partition * 1000, partition * 1000 + 200 + partition, 3, partition, "three");
  LoaderOptions first = options("until=now", "three");
  first.max_batches = 10;
  std::vector<int64_t> numbers = read(first);
  EXPECT_EQ(numbers.size(), 160u);
  LoaderOptions rest = options("until=now", "three");
  rest.start = positions_.back();
  for (const int64_t number : read(rest)) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  std::vector<int64_t> expected = range(0, 200);
  for (const int64_t number : range(1000, 1201)) expected.push_back(number);
  for (const int64_t number : range(2000, 2202)) expected.push_back(number);
  EXPECT_EQ(numbers, expected);
}

TEST_F(KafkaLoaderTest, SeveralStreamsDivideThePartitionsAndContinueInAnyNumber) {
  for (int32_t partition = 0; partition < 3; ++partition)
    send_rows(partition * 1000, partition * 1000 + 200 + partition, 7, partition, "three");
  std::vector<int64_t> numbers;
  DataPosition joined;
  // Two streams read some of it, each to the middle of a message; four read the rest.
  for (const int64_t streams : {2, 4}) {
    const DataPosition start = std::exchange(joined, {});
    for (int64_t stream = 0; stream < streams; ++stream) {
      LoaderOptions share = options("until=now&max_wait_ms=0", "three");
      share.stream = stream;
      share.streams = streams;
      share.start = start;
      if (streams == 2) share.max_batches = 3;
      const std::vector<int64_t> found = read(share);
      if (streams == 2)
        EXPECT_EQ(found.size(), 48u);
      else
        EXPECT_EQ(found.empty(), stream == 3);
      numbers.insert(numbers.end(), found.begin(), found.end());
      if (positions_.empty()) continue;
      for (const StreamPosition& each : positions_.back().stream) {
        EXPECT_EQ(each.partition % streams, stream);
        joined.stream.push_back(each);
      }
    }
    EXPECT_EQ(joined.stream.size(), 3u);
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<int64_t> expected;
  for (int64_t partition = 0; partition < 3; ++partition)
    for (const int64_t number : range(partition * 1000, partition * 1000 + 200 + partition))
      expected.push_back(number);
  EXPECT_EQ(numbers, expected);
}

TEST_F(KafkaLoaderTest, KnowsWhereItStartsBeforeThereAreRows) {
  send_rows(0, 5);
  const TestPipeline pipeline(pipeline_text("JSON_ROWS"));
  const Loader loader(pipeline.config.data_config(), pipeline.features,
                      options("auto.offset.reset=latest"));
  EXPECT_THAT(loader.start().stream, ElementsAre(StreamPosition{0, 5, 0}));
}

TEST_F(KafkaLoaderTest, ClosesABatchWithTheRowsThatAreThere) {
  const TestPipeline pipeline(pipeline_text("JSON_ROWS"));
  Batch batch;
  for (const auto& [query, rows] : {std::pair{"max_wait_ms=3600000", 3}, {"max_wait_ms=0", 16}}) {
    Loader loader(pipeline.config.data_config(), pipeline.features,
                  options(cat("auto.offset.reset=latest&", query)));
    EXPECT_FALSE(loader.wait(milliseconds(10)));
    EXPECT_FALSE(loader.close_batch());
    send_rows(0, rows);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!loader.close_batch() && std::chrono::steady_clock::now() < deadline)
      loader.wait(milliseconds(10));
    int64_t found = 0;
    do {
      ASSERT_TRUE(loader.next(batch));
      found += batch.rows;
    } while (found < rows && loader.close_batch());
    EXPECT_LE(found, rows);
    if (rows == 16) {
      EXPECT_EQ(found, 16);
    }
    EXPECT_FALSE(loader.wait(milliseconds(10)));
  }
}

TEST_F(KafkaLoaderTest, GivesOutASlowStreamAfterTheLongestWait) {
  const TestPipeline pipeline(pipeline_text("JSON_ROWS"));
  Loader loader(pipeline.config.data_config(), pipeline.features, options("max_wait_ms=20"));
  Batch batch;
  EXPECT_FALSE(loader.wait(milliseconds(10)));
  send_rows(0, 3);
  ASSERT_TRUE(loader.wait(milliseconds(60000)));
  int64_t rows = 0;
  while (rows < 3 && loader.next(batch)) rows += batch.rows;
  EXPECT_EQ(rows, 3);
  EXPECT_GT(batch.unix_ms, 1600000000000);
  EXPECT_GE(loader.statistics().lag.seconds, 0.0);
  send_rows(3, 4);
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(3));
  EXPECT_THAT(batch.next.stream, ElementsAre(StreamPosition{0, 4, 0}));
}

TEST_F(KafkaLoaderTest, StopsWhileItWaitsForMessages) {
  const TestPipeline pipeline(pipeline_text("JSON_ROWS"));
  Loader loader(pipeline.config.data_config(), pipeline.features, options(""));
  EXPECT_FALSE(loader.wait(milliseconds(50)));
}

TEST_F(KafkaLoaderTest, ReadsCsvRowsAsFilesAreRead) {
  for (int i = 0; i < 40; ++i) send(cat(i % 2, ",", i % 7, ",", i, "\n"));
  producer_->flush(std::chrono::seconds(60));
  EXPECT_EQ(read(options("until=now"), "CSV_ROWS"), range(0, 40));
}

TEST_F(KafkaLoaderTest, BadMessagesAreBadRows) {
  send_rows(0, 20);
  send("{\"label\": 1, \"x\"");
  send(json_row(20) + "\n{\"label\": 1, \"x\": \"high\", \"id\": 3}\n" + json_row(21));
  send("{\"label\": 1, \"x\": 1, \"id\": 100000}");  // outside of its table: found by the transform
  send_rows(22, 40);
  LoaderOptions tolerant = options("until=now&max_wait_ms=0");
  tolerant.max_bad_rows = 3;
  EXPECT_EQ(read(tolerant), range(0, 40));
  EXPECT_EQ(statistics_.bad_rows, 3);
  for (size_t i = 0; i < positions_.size(); ++i) {
    LoaderOptions rest = tolerant;
    rest.start = positions_[i];
    const auto positions = positions_;
    EXPECT_EQ(read(rest), range(positions[i].rows_in_epoch, 40));
    positions_ = positions;
  }
  LoaderOptions strict = options("until=now");
  EXPECT_EQ(strict.max_bad_rows, 0);
  EXPECT_THAT(loader_error(TestPipeline(pipeline_text("JSON_ROWS")), strict),
              AllOf(StartsWith("topic t, partition 0, offset 20, row 1: is not valid JSON"),
                    HasSubstr("max_bad_rows")));
  strict.max_bad_rows = 1;
  EXPECT_THAT(loader_error(TestPipeline(pipeline_text("JSON_ROWS")), strict),
              HasSubstr("data_config.max_bad_rows allows 1; the first: topic t, partition 0"));
}

TEST_F(KafkaLoaderTest, KeepsTheSameSampleWhateverTheMessagesAreReadWith) {
  send_rows(0, 400, 3);
  LoaderOptions sampled = options("until=now&max_wait_ms=0");
  sampled.sample_ratio = 0.5;
  const std::vector<int64_t> once = read(sampled);
  EXPECT_GT(once.size(), 150u);
  EXPECT_LT(once.size(), 250u);
  sampled.workers = 1;
  EXPECT_EQ(read(sampled), once);
}

TEST_F(KafkaLoaderTest, SaysWhatAStreamCannotBeUsedFor) {
  LoaderOptions blank = options("");
  blank.bad_rows = BadRowHandling::kBlank;
  EXPECT_THAT(loader_error(TestPipeline(pipeline_text("JSON_ROWS")), blank),
              HasSubstr("can be trained on only"));
  EXPECT_THAT(loader_error(TestPipeline(R"(
      data_config { dataset_type: KafkaDataset stream_format: CSV_ROWS label_fields: "label" }
      feature_configs { raw_feature { feature_name: "x" } })"),
                           options("")),
              HasSubstr("list data_config.input_fields"));
}

}  // namespace
}  // namespace emblem
