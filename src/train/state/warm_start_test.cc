#include "train/state/warm_start.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "train/state/dense_values.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class WarmStartTest : public testing::Test {
 protected:
  static PipelineConfig config(const std::vector<std::string>& changes = {}) {
    return parse_pipeline(R"(
        train_config {
          sparse_optimizer { adagrad_optimizer { lr: 0.1 } }
          dense_optimizer { adam_optimizer { lr: 0.1 } }
          num_steps: 1
        }
        feature_configs { raw_feature { feature_name: "x" } }
        feature_configs { id_feature { feature_name: "a" num_buckets: 5 embedding_dim: 2 } }
        feature_configs { id_feature { feature_name: "b" embedding_dim: 2
                                       dynamicemb { max_capacity: 100 } } }
        model_config {
          feature_groups { group_name: "deep" feature_names: ["x", "a", "b"] }
          dnn { deep { hidden_units: 3 use_bn: true } } })",
                          "test", changes);
  }

  struct Trained {
    PipelineConfig config;
    FeatureLayout layout = layout_of(config);
    Learner learner{{}, config, layout, 8};
    explicit Trained(const PipelineConfig& config) : config(config) {}
  };

  // A checkpoint of a model whose every weight, statistic and state is known.
  std::string saved() {
    Trained first(config());
    DenseValues values = read_dense(first.learner);
    std::fill(values.parameters.begin(), values.parameters.end(), 0.25f);
    std::fill(values.statistics.begin(), values.statistics.end(), 0.5f);
    for (auto& state : values.optimizer_states) std::fill(state.begin(), state.end(), 9.0f);
    write_dense(first.learner, values);
    for (Table* table : first.learner.model().tables()) {
      const int64_t keys[] = {1, 3};
      const float weights[] = {1, 2, 3, 4};
      table->import_rows({}, {.keys = keys, .weights = weights, .states = {}, .scores = {}});
    }
    first.learner.set_steps(77);
    return save_run(folder_.path("model"), first.learner, {}, first.config);
  }

  const TempFolder folder_;
};

TEST_F(WarmStartTest, TakesWeightsAndStatisticsButNoOptimizerState) {
  const std::string path = saved();
  Trained second(config({"train_config.sparse_optimizer={sgd_optimizer {lr: 0.1}}"}));
  const WarmStartSummary summary =
      load_weights(folder_.path("model"), second.learner, WarmStart::kAll);
  const DenseValues values = read_dense(second.learner);
  for (const Parameter& parameter : second.learner.model().graph().parameter_list())
    EXPECT_THAT(part_of<const float>(values.parameters, parameter), Each(0.25f)) << parameter.name;
  for (const Parameter& statistic : second.learner.model().graph().statistic_list())
    EXPECT_THAT(part_of<const float>(values.statistics, statistic), Each(0.5f)) << statistic.name;
  EXPECT_THAT(values.optimizer_states, Each(Each(0.0f)));
  EXPECT_EQ(second.learner.steps(), 0);
  EXPECT_EQ(summary.checkpoint, path);
  EXPECT_EQ(summary.step, 77);
  EXPECT_EQ(summary.tables, 2);
  EXPECT_EQ(summary.rows, 5 + 2) << "all of the static table, two keys of the dynamic one";
  EXPECT_THAT(summary.fresh, IsEmpty());
  EXPECT_THAT(summary.unused, IsEmpty());
}

TEST_F(WarmStartTest, NamesWhatHasNoMatchAndLoadsNothing) {
  const std::string path = saved();
  Trained second(config({"feature_configs[1].id_feature.num_buckets=6",
                         "feature_configs[2].id_feature={feature_name: 'b' embedding_dim: 2 "
                         "num_buckets: 9}",
                         "model_config.dnn.deep.hidden_units=[4]"}));
  const std::vector<float> before = read_dense(second.learner).parameters;
  EXPECT_THAT([&] { load_weights(path, second.learner, WarmStart::kAll); },
              ThrowsMessage<Error>(AllOf(HasSubstr("table a_emb has 6 rows here and 5 there"),
                                         HasSubstr("table b_emb is static here and dynamic there"),
                                         HasSubstr("4 x 5 here and 3 x 5 there"),
                                         HasSubstr("--init-partial"))));
  EXPECT_EQ(read_dense(second.learner).parameters, before);
}

TEST_F(WarmStartTest, APartialOneKeepsTheInitialValuesOfTheRest) {
  const std::string path = saved();
  Trained second(config({"feature_configs[1].id_feature.embedding_name=other"}));
  const WarmStartSummary summary = load_weights(path, second.learner, WarmStart::kPartial);
  EXPECT_EQ(summary.tables, 1);
  EXPECT_EQ(summary.rows, 2);
  EXPECT_THAT(summary.fresh, ElementsAre("table other is not in the checkpoint"));
  EXPECT_THAT(summary.unused, ElementsAre("table a_emb"));
  EXPECT_THAT(to_text(summary), HasSubstr("1 tables with 2 rows"));
}

TEST_F(WarmStartTest, RefusesACheckpointThatHasNothingInCommon) {
  const std::string path = saved();
  Trained second(parse_pipeline(
      R"(train_config { sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
         feature_configs { id_feature { feature_name: "other" num_buckets: 5 embedding_dim: 2 } }
         model_config { feature_groups { group_name: "wide" group_type: WIDE feature_names: "other" }
                        lr {} })",
      "test"));
  EXPECT_THAT([&] { load_weights(path, second.learner, WarmStart::kPartial); },
              ThrowsMessage<Error>(HasSubstr("matches a table or parameter of the model")));
}

}  // namespace
}  // namespace emblem
