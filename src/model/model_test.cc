// Models as their configurations say: which groups they read, which parameters they have, what they
// are fed.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "config/load/load.h"
#include "core/threads/thread_pool.h"
#include "model/check/check.h"
#include "model/lookup/batch_view.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kRows = 3;

constexpr const char* kPipeline = R"(
    train_config { num_epochs: 1 sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
    data_config { dataset_type: RawDataset fg_mode: FG_DAG }
    feature_configs { raw_feature { feature_name: "i{1..2}" } }
    feature_configs { id_feature { feature_name: "c{1..3}" num_buckets: 10 embedding_dim: 4 } })";
constexpr const char* kModelDense =
    R"( feature_groups { group_name: "dense" feature_names: "i{1..2}" } )";
constexpr const char* kSparse =
    R"( feature_groups { group_name: "sparse" feature_names: "c{1..3}" } )";
constexpr const char* kDeep =
    R"( feature_groups { group_name: "deep" feature_names: "i{1..2}" feature_names: "c{1..3}" } )";

struct TestModel {
  explicit TestModel(const std::string& model_config, const std::string& settings = "")
      : config(parse_pipeline(kPipeline + settings + " model_config { " + model_config + " }",
                              "test.config")),
        layout(layout_of(config)) {
    check_pipeline(config);
    model = std::make_unique<Model>(context, config, layout, kRows);
  }

  // "outputs x inputs" by name.
  std::map<std::string, std::string> parameters() {
    std::map<std::string, std::string> found;
    for (const Parameter& each : model->graph().parameter_list())
      found[each.name] = cat(each.rows, " x ", each.cols);
    return found;
  }

  Context context;
  PipelineConfig config;
  FeatureLayout layout;
  std::unique_ptr<Model> model;
};

TEST(Dcn, ReadsTheFirstGroupAndHasNoBiasInItsLastLayer) {
  const std::string two_groups = std::string(kSparse) + kDeep;
  for (const char* network :
       {"dcn_v1 { cross { cross_num: 1 } deep { hidden_units: 5 } }",
        "dcn_v2 { cross { cross_num: 1 low_rank: 0 } deep { hidden_units: 5 } }"}) {
    auto parameters = TestModel(two_groups + network).parameters();
    EXPECT_EQ(parameters["deep.0.weight"], "5 x 12") << "3 vectors of 4";
    EXPECT_EQ(parameters["output.0.weight"], "1 x 17");
    EXPECT_FALSE(parameters.contains("output.0.bias"));

    parameters = TestModel(two_groups + network, "semantics_version: 1").parameters();
    EXPECT_EQ(parameters["deep.0.weight"], "5 x 14") << "the group \"deep\"";
    EXPECT_TRUE(parameters.contains("output.0.bias"));
  }
}

TEST(DcnV2, TheDeepNetworkReadsTheGroup) {
  const std::string network = std::string(kDeep) +
                              "dcn_v2 { backbone { hidden_units: 6 } cross { cross_num: 1 "
                              "low_rank: 0 } deep { hidden_units: 5 } }";
  auto parameters = TestModel(network).parameters();
  EXPECT_EQ(parameters["backbone.0.weight"], "6 x 14");
  EXPECT_EQ(parameters["deep.0.weight"], "5 x 14");
  EXPECT_EQ(parameters["output.0.weight"], "1 x 11");
  parameters = TestModel(network, "semantics_version: 1").parameters();
  EXPECT_EQ(parameters["deep.0.weight"], "5 x 6") << "the backbone's output";
}

TEST(Dlrm, ASingleGroupIsItsSparseOne) {
  const std::string any_name = R"(feature_groups { group_name: "all" feature_names: "c{1..3}" } )";
  const std::string network = "dlrm { dense_mlp { hidden_units: 4 } final { hidden_units: 5 } }";
  EXPECT_EQ(TestModel(any_name + network).parameters()["top.0.weight"], "5 x 15")
      << "3 products, 3 vectors of 4";
  EXPECT_EQ(TestModel(std::string(kModelDense) + kSparse + network).parameters()["top.0.weight"],
            "5 x 22")
      << "6 products, the bottom's 4, 3 vectors of 4";
}

class Feeding : public testing::Test {
 protected:
  Feeding()
      : model_(std::string(kModelDense) + kSparse +
               "dlrm { dense_mlp { hidden_units: 4 } final { hidden_units: 5 } }") {
    batch_.rows = kRows;
    batch_.dense.assign(2 * kRows, 1.0f);
    batch_.labels.assign(kRows, 1.0f);
    batch_.resize_sparse(3);
    for (SparseColumn& column : batch_.sparse) column.keys.assign(kRows, 2);
  }
  void forward(Phase phase) { model_.model->forward(model_.context, view_.set(batch_), phase, 0); }

  TestModel model_;
  Batch batch_;
  BatchView view_;
};

TEST_F(Feeding, ABatchThatFitsIsTaken) {
  forward(Phase::kTrain);
  forward(Phase::kEval);
  batch_.labels.clear();
  forward(Phase::kEval);  // predictions need no labels
}

TEST_F(Feeding, OtherNumbersOfLabelsThanRowsAreRefused) {
  batch_.labels.assign(2 * kRows, 1.0f);
  for (const Phase phase : {Phase::kTrain, Phase::kEval}) {
    EXPECT_THAT([&] { forward(phase); },
                ThrowsMessage<Error>("a batch has 6 labels, but the model takes 3 x 1 of them"));
  }
  batch_.labels.clear();
  EXPECT_THAT([&] { forward(Phase::kTrain); },
              ThrowsMessage<Error>(HasSubstr("a batch has 0 labels")));
}

TEST_F(Feeding, OtherNumbersOfValuesThanTheModelTakesAreRefused) {
  batch_.dense.assign(3 * kRows, 1.0f);
  EXPECT_THAT(
      [&] { forward(Phase::kTrain); },
      ThrowsMessage<Error>("a batch has 9 numeric values, but the model takes 3 x 2 of them"));
}

// Before there is memory for them: a client may send a pipeline with layers of any size.
TEST_F(Feeding, MoreWeightsThanAFileHoldsAreRefused) {
  int64_t weights = 0;
  for (const Parameter& one : model_.model->graph().parameter_list()) weights += one.rows * one.cols;
  const auto making = [&](int64_t most) {
    return [this, most] {
      Model(model_.context, model_.config, model_.layout, kRows, nullptr, ModelUse::kTraining,
            nullptr, most);
    };
  };
  EXPECT_NO_THROW(making(weights)());
  EXPECT_THAT(making(weights - 1), ThrowsMessage<Error>(HasSubstr("is of another model")));
}

}  // namespace
}  // namespace emblem
