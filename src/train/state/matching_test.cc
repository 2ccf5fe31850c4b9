// Matching models, from data with planted truth to the vectors of a checkpoint.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "comm/threads/threads.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "data/synth/pipeline_synth.h"
#include "model/check/check.h"
#include "train/report/run_report.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kMatchingBatch = 50, kMatchingDim = 8, kTestRows = 300;
constexpr double kMatchingTemperature = 0.2;

// The groups of a model and its message, to which settings are added.
constexpr const char* kMatchingItems = R"(
    feature_groups { group_name: "item" feature_names: "item" feature_names: "cate" feature_names: "price" } )";
constexpr const char* kMatchingDssm = R"(
    feature_groups { group_name: "user" feature_names: "user"
      sequence_groups { group_name: "clicks" feature_names: "clicks__item" }
      sequence_encoders { pooling_encoder {} } }
    dssm { user_tower { input: "user" mlp { hidden_units: 16 } } )";
constexpr const char* kMatchingMind = R"(
    feature_groups { group_name: "user" feature_names: "user" }
    feature_groups { group_name: "clicks" feature_names: "clicks__item" group_type: SEQUENCE }
    mind { user_tower { input: "user" history_input: "clicks" user_mlp { hidden_units: 16 }
      hist_seq_mlp { hidden_units: [16, 8] dropout_ratio: 0.1 }
      capsule_config { max_k: 3 max_seq_len: 10 high_dim: 8 routing_logits_scale: 5 squash_pow: 0.2 }
      concat_mlp { hidden_units: 16 } } )";

class MatchingRunTest : public testing::Test {
 protected:
  std::string model(const std::string& name) const { return folder_.path(name); }

  // `sampler` of data_config and `settings` of the model.
  config::PipelineConfig pipeline(const std::string& name, const std::string& sampler,
                                  const std::string& settings = "",
                                  const char* model_text = kMatchingDssm) const {
    config::PipelineConfig config = parse_pipeline(
        cat("train_input_path: '", folder_.path("data/train"), "' eval_input_path: '",
            folder_.path("data/test"), "' model_dir: '", model(name), R"('
        train_config { num_epochs: 4 save_checkpoints_steps: 0
          sparse_optimizer { adagrad_optimizer { lr: 0.2 } } dense_optimizer { adam_optimizer { lr: 0.01 } } }
        data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG label_fields: "clk"
          batch_size: 50 num_workers: 1 )",
            sampler, R"( }
        feature_configs { id_feature { feature_name: "user" num_buckets: 200 embedding_dim: 8 } }
        feature_configs { id_feature { feature_name: "item" num_buckets: 100 embedding_dim: 8 } }
        feature_configs { id_feature { feature_name: "cate" hash_bucket_size: 50 embedding_dim: 8 } }
        feature_configs { raw_feature { feature_name: "price" } }
        feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 10 sequence_delim: "|"
          features { id_feature { feature_name: "item" num_buckets: 100 embedding_dim: 8 } } } }
        model_config { )",
            kMatchingItems, model_text, R"(
            item_tower { input: "item" mlp { hidden_units: 16 } } output_dim: 8
            similarity: COSINE temperature: 0.2 )",
            settings, R"( }
          losses { softmax_cross_entropy {} } metrics { recall_at_k { top_k: 1 } } metrics { recall_at_k {} } })"),
        name);
    check_pipeline(config);
    return config;
  }
  std::string sampler() const {
    return cat("negative_sampler { input_path: '", folder_.path("data/items.txt"),
               R"(' num_sample: 60 num_eval_sample: 40 item_id_field: "item" attr_fields: "item"
               attr_fields: "price" attr_fields: "cate" })");
  }
  // One that reads edges of users, `kind` of data_config.
  std::string edge_sampler(const std::string& kind) const {
    const auto file = [&](const char* field, const char* name) {
      return cat(" ", field, ": '", folder_.path(name), "'");
    };
    std::string text = cat(kind, " {", file("item_input_path", "data/items.txt"),
                           file("user_input_path", "data/users.txt"),
                           R"( num_sample: 60 num_eval_sample: 40 item_id_field: "item"
                           user_id_field: "user" attr_fields: "item" attr_fields: "price"
                           attr_fields: "cate" )");
    if (kind.ends_with("v2")) text += file("pos_edge_input_path", "data/positive_edges.txt");
    if (kind.starts_with("hard"))
      text += "num_hard_sample: 3" + file("hard_neg_edge_input_path", "data/hard_edges.txt");
    return text + " }";
  }
  // A run in two parts learns what one in one part does, whose model is evaluated as it was.
  void expect_exact_resume(const std::string& sampler, const std::string& settings) const {
    const TrainSummary whole = train({}, pipeline("whole", sampler, settings), {});
    const config::PipelineConfig parts = pipeline("parts", sampler, settings);
    train({}, parts, {.max_steps = 77});
    const TrainSummary resumed = train({}, parts, {.model_dir = ModelDir::kResume});
    EXPECT_EQ(learned(resumed.checkpoint), learned(whole.checkpoint));
    EXPECT_EQ(resumed.evaluation->metrics, whole.evaluation->metrics);
    RestoredModel restored({}, model("whole"), "", {});
    EXPECT_EQ(restored.evaluate("").metrics, whole.evaluation->metrics);
  }
  void make_data(const config::PipelineConfig& config) const {
    synthesize_for({}, config,
                   {.name = "matching",
                    .out = folder_.path("data"),
                    .rows = 3000,
                    .test_rows = kTestRows,
                    .writing = {.overwrite = Overwrite::kReplace}});
  }
  static std::string learned(const std::string& checkpoint) {
    std::string all = read_text_file(checkpoint + "/dense.safetensors");
    for (const char* table : {"user_emb", "item_emb", "cate_emb", "clicks__item_emb_seq"})
      all += read_text_file(cat(checkpoint, "/tables/", table, "/emb_vector"));
    return all;
  }

  const TempFolder folder_;
};

TEST_F(MatchingRunTest, SampledNegativesTeachWhichItemsUsersChoose) {
  const config::PipelineConfig config = pipeline("whole", sampler());
  make_data(config);
  const TrainSummary whole = train({}, config, {});
  ASSERT_TRUE(whole.evaluation);
  // More than by chance, among an item and 40 others; and again the same.
  EXPECT_GT(whole.evaluation->at("recall@5"), 1.5 * 5 / 41.0);
  EXPECT_LT(whole.evaluation->at("recall@1"), whole.evaluation->at("recall@5"));
  EXPECT_LT(whole.evaluation->at("softmax_cross_entropy"), std::log(41.0));
  RestoredModel restored({}, model("whole"), "", {});
  EXPECT_EQ(restored.evaluate("").metrics, whole.evaluation->metrics);
  // A run that is resumed gets the same negatives.
  const config::PipelineConfig parts = pipeline("parts", sampler());
  train({}, parts, {.max_steps = 77});
  const TrainSummary resumed = train({}, parts, {.model_dir = ModelDir::kResume});
  EXPECT_EQ(learned(resumed.checkpoint), learned(whole.checkpoint));
  EXPECT_EQ(resumed.evaluation->metrics, whole.evaluation->metrics);
}

TEST_F(MatchingRunTest, InterestsAreLearnedAndTheSameAfterAResume) {
  const config::PipelineConfig config = pipeline("whole", sampler(), "", kMatchingMind);
  make_data(config);
  const TrainSummary whole = train({}, config, {});
  ASSERT_TRUE(whole.evaluation);
  EXPECT_GT(whole.evaluation->at("recall@5"), 1.5 * 5 / 41.0);
  RestoredModel restored({}, model("whole"), "", {});
  EXPECT_EQ(restored.evaluate("").metrics, whole.evaluation->metrics);
  const Predictions users =
      restored.predict(folder_.path("data/test"), std::vector<std::string>{"user_tower_emb"});
  EXPECT_EQ(std::ssize(users.values), kTestRows * 3 * kMatchingDim);
  const config::PipelineConfig parts = pipeline("parts", sampler(), "", kMatchingMind);
  train({}, parts, {.max_steps = 77});
  const TrainSummary resumed = train({}, parts, {.model_dir = ModelDir::kResume});
  EXPECT_EQ(learned(resumed.checkpoint), learned(whole.checkpoint));
  EXPECT_EQ(resumed.evaluation->metrics, whole.evaluation->metrics);
}

TEST_F(MatchingRunTest, MetricsWithinBatchesAreThoseOfTheVectors) {
  const config::PipelineConfig config = pipeline("batches", "", "in_batch_negative: true");
  make_data(config);
  const TrainSummary summary = train({}, config, {});
  RestoredModel restored({}, model("batches"), "", {});
  const auto predict = [&](const std::string& output) {
    return restored.predict(folder_.path("data/test"), std::vector<std::string>{output});
  };
  const Predictions users = predict("user_tower_emb"), items = predict("item_tower_emb");
  ASSERT_EQ(std::ssize(users.values), kTestRows * kMatchingDim);
  const auto score = [&](int64_t user, int64_t item) {
    double sum = 0.0;
    for (int64_t j = 0; j < kMatchingDim; ++j)
      sum += users.values[user * kMatchingDim + j] * items.values[item * kMatchingDim + j];
    return sum / kMatchingTemperature;
  };
  double loss = 0.0, found = 0.0;
  for (int64_t row = 0; row < kTestRows; ++row) {
    double sum = 0.0, better = 0.0, equal = 0.0;
    const int64_t begin = row / kMatchingBatch * kMatchingBatch;
    for (int64_t item = begin; item < begin + kMatchingBatch; ++item) {
      const double difference = score(row, item) - score(row, row);
      sum += std::exp(difference);
      better += difference > 1e-5 ? 1 : 0;
      equal += std::abs(difference) <= 1e-5 ? 1 : 0;
    }
    loss += std::log(sum) / kTestRows;
    found += std::clamp((5 - better) / equal, 0.0, 1.0) / kTestRows;
  }
  EXPECT_NEAR(summary.evaluation->at("softmax_cross_entropy"), loss, 1e-4);
  EXPECT_NEAR(summary.evaluation->at("recall@5"), found, 1e-3);
  EXPECT_GT(found, 5 / 50.0);  // what chance finds
}

TEST_F(MatchingRunTest, EdgesOfUsersSayWhatIsSampledAlsoAfterAResume) {
  for (const char* kind :
       {"negative_sampler_v2", "hard_negative_sampler", "hard_negative_sampler_v2"}) {
    SCOPED_TRACE(kind);
    make_data(pipeline("data", edge_sampler(kind)));
    expect_exact_resume(edge_sampler(kind), "mask_equal_items: true");
    std::filesystem::remove_all(model("whole"));
    std::filesystem::remove_all(model("parts"));
  }
}

TEST_F(MatchingRunTest, CorrectedScoresAreTheSameAfterAResumeAndOtherOnesThanWithoutACorrection) {
  make_data(pipeline("data", sampler()));
  const std::string often = cat("mask_equal_items: true item_id_feature: 'item' logq_correction { ",
                                "input_path: '", folder_.path("data/items.txt"), "' }");
  expect_exact_resume("", "in_batch_negative: true " + often);
  const std::string corrected = learned(find_checkpoint(model("whole")));
  train({}, pipeline("plain", "", "in_batch_negative: true"), {});
  EXPECT_NE(learned(find_checkpoint(model("plain"))), corrected);
}

TEST_F(MatchingRunTest, RanksLearnFromHardNegativesWhatOneDoesWithAsManyShards) {
  const std::string sampler = edge_sampler("hard_negative_sampler_v2");
  make_data(pipeline("data", sampler));
  const auto learned_by = [&](int ranks) {
    config::PipelineConfig config =
        pipeline(cat("ranks_", ranks), sampler, "mask_equal_items: true");
    config.mutable_train_config()->set_logical_shards(2);
    run_thread_ranks(ranks, [&](Communicator& rank) {
      train({}, config, {.max_steps = 30, .world = {.ranks = &rank, .shards = 2}});
    });
    // Tables are divided among ranks; layers follow from their rows.
    return read_text_file(find_checkpoint(config.model_dir()) + "/dense.safetensors");
  };
  EXPECT_EQ(learned_by(1), learned_by(2));
}

TEST_F(MatchingRunTest, AMissingFileOfItemsIsSaidBeforeTraining) {
  make_data(pipeline("data", sampler()));
  config::PipelineConfig config = pipeline("missing", sampler());
  config.mutable_data_config()->mutable_negative_sampler()->set_input_path(
      folder_.path("nothing.txt"));
  EXPECT_THAT([&] { train({}, config, {}); }, ThrowsMessage<Error>(HasSubstr("nothing.txt")));
}

}  // namespace
}  // namespace emblem
