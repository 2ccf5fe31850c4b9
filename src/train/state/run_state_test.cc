#include "train/state/run_state.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "train/state/dense_values.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class RunStateTest : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("model")))
      names.push_back(entry.path().filename());
    return names;
  }

  const TempFolder folder_;
  const PipelineConfig config_ = parse_pipeline(R"(
        train_config { sparse_optimizer { sgd_optimizer { lr: 0.1 } }
                       dense_optimizer { adam_optimizer { lr: 0.1 } ema { decay: 0.9 } } }
        data_config { label_fields: "label" fg_mode: FG_DAG }
        feature_configs { raw_feature { feature_name: "x" } }
        feature_configs { id_feature { feature_name: "a" num_buckets: 5 embedding_dim: 2 } }
        model_config { feature_groups { group_name: "deep" feature_names: ["x", "a"] }
                       dnn { deep { hidden_units: 3 use_bn: true } } })",
                                                "test");
  Learner learner_{{}, config_, layout_of(config_), 8};
};

TEST_F(RunStateTest, LayersThatAreNaNOrInfiniteAreNotSaved) {
  learner_.set_steps(10);
  save_run(folder_.path("model"), learner_, {}, config_);
  const DenseValues good = read_dense(learner_);
  learner_.set_steps(20);
  using Part = std::vector<float> DenseValues::*;
  for (const Part part :
       {&DenseValues::parameters, &DenseValues::statistics, &DenseValues::average})
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      DenseValues values = good;
      values.average = good.parameters;
      (values.*part).front() = bad;
      write_dense(learner_, values);
      EXPECT_THAT([&] { save_run(folder_.path("model"), learner_, {}, config_); },
                  ThrowsMessage<Error>(AllOf(HasSubstr("are NaN or infinite after step 20"),
                                             HasSubstr("continue from an earlier checkpoint"))));
      EXPECT_THAT(names(), testing::ElementsAre("model.ckpt-10"));
    }
  write_dense(learner_, good);
  save_run(folder_.path("model"), learner_, {}, config_);
  EXPECT_THAT(names(), testing::UnorderedElementsAre("model.ckpt-10", "model.ckpt-20"));
}

}  // namespace
}  // namespace emblem
