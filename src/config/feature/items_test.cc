#include "config/feature/items.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

config::PipelineConfig sampled_pipeline(const std::string& sampler, const std::string& settings) {
  return parse_pipeline(
      cat("data_config { ", sampler, " } model_config { dssm { item_tower {} ", settings, " } }"),
      "test.config");
}

constexpr const char* kEdges = R"(hard_negative_sampler_v2 { item_input_path: "items"
    user_input_path: "users" pos_edge_input_path: "positive" hard_neg_edge_input_path: "hard"
    num_sample: 3 num_eval_sample: 5 num_hard_sample: 2 attr_fields: "item" item_id_field: "item"
    user_id_field: "user" })";

TEST(Items, AllFilesOfASamplerAreListedAndChanged) {
  config::PipelineConfig config =
      sampled_pipeline(kEdges, "logq_correction { input_path: 'often' }");
  EXPECT_THAT(files_of(*item_sampler_of(config.data_config())),
              ElementsAre("items", "users", "positive", "hard"));
  change_item_files(&config, [](const std::string& path) { return "/data/" + path; });
  EXPECT_THAT(files_of(*item_sampler_of(config.data_config())),
              ElementsAre("/data/items", "/data/users", "/data/positive", "/data/hard"));
  EXPECT_EQ(config.model_config().dssm().logq_correction().input_path(), "/data/often");
  config = sampled_pipeline(
      "negative_sampler { input_path: 'items' num_sample: 3 attr_fields: 'item' item_id_field: "
      "'item' }",
      "");
  EXPECT_THAT(files_of(*item_sampler_of(config.data_config())), ElementsAre("items"));
}

TEST(Items, EvaluationsSampleTheirNumber) {
  config::PipelineConfig config = sampled_pipeline(kEdges, "");
  sample_for_evaluation(config.mutable_data_config());
  const ItemSamplerSpec sampler = *item_sampler_of(config.data_config());
  EXPECT_EQ(sampler.count, 5);
  EXPECT_EQ(sampler.hard_count, 2);
}

// A model that is served reads no files of items.
TEST(Items, ServedModelsHaveNoSamplerAndNoCorrections) {
  config::PipelineConfig config =
      sampled_pipeline(kEdges, "mask_equal_items: true item_id_feature: 'item'");
  EXPECT_TRUE(remove_sampler(&config));
  EXPECT_EQ(config.data_config().sampler_case(), config::DataConfig::SAMPLER_NOT_SET);
  EXPECT_TRUE(config.model_config().dssm().in_batch_negative());
  EXPECT_FALSE(config.model_config().dssm().mask_equal_items());
  EXPECT_THAT(config.model_config().dssm().item_id_feature(), IsEmpty());
  EXPECT_FALSE(remove_sampler(&config));
  config = sampled_pipeline("",
                            "in_batch_negative: true item_id_feature: 'item' "
                            "logq_correction { input_path: 'often' }");
  EXPECT_TRUE(remove_sampler(&config));
  EXPECT_FALSE(config.model_config().dssm().has_logq_correction());
  EXPECT_FALSE(remove_sampler(&config));
}

}  // namespace
}  // namespace emblem
