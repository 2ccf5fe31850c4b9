// Ranks that divide the partitions of a topic, by brokers that live in this process. Every row has
// an id of its own, and its table counts how often it was trained on.
#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/results.h"
#include "comm/ranks_test.h"
#include "config/load/load.h"
#include "core/device/device_test.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/threads/becomes_true_test.h"
#include "embedding/files/delta_files.h"
#include "kafka/address.h"
#include "kafka/producer.h"
#include "model/check/check.h"
#include "train/report/run_report.h"
#include "train/run/world.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class StreamTrainingTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (!has_kafka()) GTEST_SKIP() << "built without Kafka";
    producer_.emplace(KafkaProducer::with_mock_brokers(1));
    producer_->create_topic("one", 1);
    producer_->create_topic("four", 4);
  }

  // Messages of 3 rows, with numbers that no row has had.
  void send(const std::string& topic, int32_t partition, int messages) {
    for (int i = 0; i < messages; ++i) {
      std::string message;
      for (int j = 0; j < 3; ++j, ++sent_)
        message +=
            cat("{\"label\": ", sent_ % 2, ", \"x\": ", sent_ % 5, ", \"id\": ", sent_, "}\n");
      producer_->send_to(topic, partition, message);
    }
    producer_->flush(std::chrono::seconds(60));
  }

  PipelineConfig config(const std::string& topic, const std::string& query = "until=now",
                        const std::string& train = "") const {
    const PipelineConfig config = parse_pipeline(
        cat("train_input_path: 'kafka://", producer_->brokers(), "/", topic,
            "?fetch.wait.max.ms=10&", query, "' model_dir: '", folder_.path("model"), R"('
        train_config {
          sparse_optimizer { sgd_optimizer { lr: 0.1 } }
          dense_optimizer { sgd_optimizer { lr: 0.1 } }
          save_checkpoints_steps: 0 log_step_count_steps: 1 progressive_eval_rows: 50 )",
            train, R"( }
        data_config { dataset_type: KafkaDataset stream_format: JSON_ROWS fg_mode: FG_DAG
                      label_fields: "label" batch_size: 10 num_workers: 1 }
        feature_configs { raw_feature { feature_name: "x" } }
        feature_configs { id_feature { feature_name: "id" embedding_dim: 4
                          dynamicemb { max_capacity: 100000 score_strategy: "LFU" } } }
        model_config {
          feature_groups { group_name: "deep" feature_names: "x" feature_names: "id" }
          dnn { deep { hidden_units: 8 } } metrics { auc {} } })"),
        "test");
    check_pipeline(config);
    return config;
  }

  // `ranks` 0: a single process without ranks.
  static TrainSummary train_on(int ranks, int64_t shards, const PipelineConfig& config,
                               TrainOptions options = {}) {
    options.model_dir = ModelDir::kResume;
    const auto train_here = [&config](const TrainOptions& own) {
      Context context{.device = GetParam()};
      const auto stream = use_own_stream(context);
      return train(context, config, own);
    };
    if (ranks == 0) return train_here(options);
    TrainSummary of_first;
    run_thread_ranks(
        ranks,
        [&](Communicator& rank) {
          const World world{.ranks = &rank, .shards = shards};
          TrainOptions own = options;
          own.world = world;
          const TrainSummary summary = train_here(own);
          if (rank.rank() == 0) of_first = summary;
        },
        kTestSeconds);
    return of_first;
  }

  std::string model(const std::string& name = "") const { return folder_.path("model/" + name); }
  Manifest last() const { return read_manifest(list_checkpoints(model()).back().path); }

  // How often the rows of the last checkpoint were trained on, of all ranks.
  std::vector<uint64_t> counts() const {
    std::vector<uint64_t> counts;
    const std::string table = list_checkpoints(model()).back().path + "/tables/id_emb";
    for (const auto& entry : fs::recursive_directory_iterator(table)) {
      if (entry.path().filename() != "score") continue;
      const std::string bytes = read_text_file(entry.path().string());
      const size_t before = counts.size();
      counts.resize(before + bytes.size() / sizeof(uint64_t));
      std::memcpy(counts.data() + before, bytes.data(), bytes.size());
    }
    return counts;
  }
  // The last checkpoint has every row that was sent once.
  void expect_all_once() const {
    EXPECT_EQ(counts().size(), static_cast<size_t>(sent_));
    EXPECT_THAT(counts(), Each(1u));
    EXPECT_EQ(last().position.rows_in_epoch, sent_);
  }

  const TempFolder folder_;
  std::optional<KafkaProducer> producer_;
  int sent_ = 0;
};

TEST_P(StreamTrainingTest, EveryRowIsTrainedOnOnceWhateverTheNumberOfPartitionsAndRanks) {
  for (int32_t partition = 0; partition < 4; ++partition) send("four", partition, 30 + partition);
  for (const auto& [ranks, shards] : {std::pair{2, 2}, {3, 3}, {5, 5}, {2, 5}}) {
    const TrainSummary summary = train_on(ranks, shards, config("four"));
    EXPECT_EQ(summary.rows, sent_) << ranks;
    expect_all_once();
    EXPECT_THAT(last().position.stream,
                ElementsAre(StreamPosition{0, 30, 0}, StreamPosition{1, 31, 0},
                            StreamPosition{2, 32, 0}, StreamPosition{3, 33, 0}));
    EXPECT_EQ(last().positions.size(), static_cast<size_t>(shards));
    fs::remove_all(model());
  }
}

TEST_P(StreamTrainingTest, OnePartitionIsReadByOneRank) {
  send("one", 0, 50);
  testing::internal::CaptureStderr();
  EXPECT_EQ(train_on(3, 3, config("one")).rows, sent_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("kafka: topic one has 1 partition; 2 of 3 ranks read none\n"));
  expect_all_once();
}

TEST_P(StreamTrainingTest, AnyNumberOfRanksContinues) {
  const auto send_to_all = [&] {
    for (int32_t partition = 0; partition < 4; ++partition) send("four", partition, 40);
  };
  send_to_all();
  // Batches end within messages; some partitions may not have been read when the first run ends.
  int64_t steps = 0;
  for (const auto& [ranks, shards] : {std::pair{2, 2}, {3, 3}, {0, 1}, {1, 4}, {4, 4}}) {
    steps += 2;
    const TrainSummary summary = train_on(ranks, shards, config("four"), {.max_steps = steps});
    EXPECT_EQ(summary.steps, steps) << ranks;
    EXPECT_THAT(counts(), Each(1u)) << ranks;
    EXPECT_EQ(counts().size(), static_cast<size_t>(last().position.rows_in_epoch)) << ranks;
    EXPECT_EQ(last().position.stream.size(), 4u) << ranks;
  }
  send_to_all();
  train_on(2, 2, config("four"));
  expect_all_once();
}

TEST_P(StreamTrainingTest, PartitionsWithoutRowsContinueWhereTheRunBegan) {
  for (int32_t partition = 0; partition < 4; ++partition) send("four", partition, 5);
  const int skipped = sent_;
  // All ranks have found the end of their partitions when the run has its folder.
  std::jthread sender([&] {
    EXPECT_TRUE(becomes_true([&] { return fs::exists(model("pipeline.config")); }));
    send("four", 3, 20);
  });
  train_on(2, 2, config("four", "auto.offset.reset=latest&max_wait_ms=50"), {.max_steps = 1});
  sender.join();
  ASSERT_EQ(last().position.stream.size(), 4u);
  for (int32_t partition = 0; partition < 3; ++partition) {
    EXPECT_EQ(last().position.stream[static_cast<size_t>(partition)],
              (StreamPosition{partition, 5, 0}));
    send("four", partition, 2);
  }
  train_on(3, 3, config("four"));
  EXPECT_EQ(counts().size(), static_cast<size_t>(sent_ - skipped));
  EXPECT_THAT(counts(), Each(1u));
}

TEST_P(StreamTrainingTest, WindowsAndDeltasAreThoseOfAllRanks) {
  for (int32_t partition = 0; partition < 4; ++partition) send("four", partition, 40);
  train_on(3, 3, config("four", "until=now", "delta_steps: 2 "));
  expect_all_once();
  double validated = 0;
  for (const ResultLine& line : read_results(model("train_log.jsonl"))) {
    EXPECT_TRUE(line.values.contains("stream/lag_messages"));
    const auto rows = line.values.find("progressive/rows");
    if (rows != line.values.end()) validated += rows->second;
  }
  EXPECT_EQ(validated, sent_);
  const std::vector<DeltaFolder> deltas = list_deltas(model("deltas"));
  ASSERT_GT(deltas.size(), 1u);
  EXPECT_THAT(read_delta_manifest(deltas.back()).origin.stream_offsets,
              ElementsAre(40, 40, 40, 40));
}

EMBLEM_TEST_ON_EVERY_DEVICE(StreamTrainingTest);

}  // namespace
}  // namespace emblem
