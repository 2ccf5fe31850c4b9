#include "serve/engine/request_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace emblem {
namespace {

using testing::ElementsAre;

// "name TYPE" of each input of a served CSV pipeline.
std::vector<std::string> inputs_of(const std::string& settings) {
  const PipelineConfig config = parse_pipeline(settings + R"(
    feature_configs { raw_feature { feature_name: "age" expression: "user:years" normalizer: "method=log1p" } }
    feature_configs { raw_feature { feature_name: "level" boundaries: [1, 2] embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "city" expression: "user:town" hash_bucket_size: 9 embedding_dim: 4 } })",
                                               "test.config");
  const RequestColumns columns(config.data_config(), layout_of(config));
  std::vector<std::string> inputs;
  for (const auto& input : columns.inputs())
    inputs.push_back(cat(input.name, " ", name_of(input.type)));
  return inputs;
}

TEST(RequestColumns, FollowTheFgModeOfTheModel) {
  EXPECT_THAT(inputs_of("data_config { fg_mode: FG_DAG }"),
              ElementsAre("years FP32", "level FP32", "town BYTES"));
  EXPECT_THAT(inputs_of("data_config { fg_mode: FG_BUCKETIZE }"),
              ElementsAre("age FP32", "level FP32", "city BYTES"));
  EXPECT_THAT(inputs_of("data_config { fg_mode: FG_NONE }"),
              ElementsAre("age FP32", "level INT64", "city INT64"));
  EXPECT_THAT(inputs_of("semantics_version: 1"),
              ElementsAre("years FP32", "level FP32", "town BYTES"));
}

}  // namespace
}  // namespace emblem
