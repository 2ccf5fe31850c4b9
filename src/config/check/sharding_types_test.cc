#include "config/check/sharding_types.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

config::FeatureConfig feature_of(const std::string& constraints) {
  config::FeatureConfig feature;
  feature.mutable_id_feature()->set_feature_name("a");
  feature.mutable_id_feature()->set_num_buckets(10);
  feature.mutable_id_feature()->set_embedding_dim(4);
  if (!constraints.empty())
    feature.mutable_id_feature()->mutable_embedding_constraints()->add_sharding_types(constraints);
  return feature;
}

config::TrainConfig train_of(const std::string& constraints) {
  config::TrainConfig train;
  if (!constraints.empty())
    train.mutable_global_embedding_constraints()->add_sharding_types(constraints);
  return train;
}

TEST(ShardingTypes, AFeaturesOwnComeFirst) {
  const ShardingKinds own = sharding_kinds_of(feature_of("data_parallel"), train_of("row_wise"));
  EXPECT_TRUE(own.data_parallel && !own.row_wise && !own.table_wise && !own.column_wise);
  const ShardingKinds global = sharding_kinds_of(feature_of(""), train_of("table_wise"));
  EXPECT_TRUE(global.table_wise && !global.row_wise && !global.data_parallel);
  EXPECT_EQ(sharding_kinds_of(feature_of(""), train_of("")), ShardingKinds{});
}

TEST(ShardingTypes, KindsThatEmblemDoesNotHaveLeaveTheTableFree) {
  EXPECT_EQ(sharding_kinds_of(feature_of("grid_shard"), train_of("row_wise")),
            ShardingKinds{.unsupported = {"grid_shard"}});
}

TEST(ShardingTypes, ColumnsNeedAnOptimizerThatTheyCanBeUpdatedBy) {
  config::TrainConfig train;
  train.mutable_sparse_optimizer()->mutable_adagrad_optimizer();
  const ShardingKinds kinds = sharding_kinds_of(feature_of("column_wise"), train);
  EXPECT_TRUE(kinds.column_wise && !kinds.row_wise && !kinds.table_wise && !kinds.data_parallel);
  train.mutable_sparse_optimizer()->mutable_rowwise_adagrad_optimizer();
  EXPECT_EQ(sharding_kinds_of(feature_of("column_wise"), train),
            ShardingKinds{.unsupported = {"column_wise"}});
}

TEST(ShardingTypes, AnotherWordIsAnError) {
  EXPECT_THAT([] { sharding_kinds_of(feature_of("rowwise"), train_of("")); },
              ThrowsMessage<Error>("feature a: embedding_constraints.sharding_types has "
                                   "\"rowwise\"; expected row_wise, table_wise, column_wise, "
                                   "data_parallel"));
  EXPECT_THAT(
      [] { sharding_kinds_of(feature_of(""), train_of("x")); },
      ThrowsMessage<Error>("train_config.global_embedding_constraints.sharding_types has "
                           "\"x\"; expected row_wise, table_wise, column_wise, data_parallel"));
}

TEST(ShardingTypes, OneLineForAllFeaturesThatAskForTheSame) {
  config::PipelineConfig config;
  for (const char* name : {"a", "b"}) {
    config::FeatureConfig& feature = *config.add_feature_configs();
    feature = feature_of("grid_shard");
    feature.mutable_id_feature()->set_feature_name(name);
    feature.mutable_id_feature()->set_expression(std::string("item:") + name);
  }
  EXPECT_THAT(
      unsupported_sharding(config),
      ElementsAre("sharding_types grid_shard of feature a and 1 other features are not "
                  "supported; their tables are placed as if none were given (supported with "
                  "this sparse_optimizer: row_wise, table_wise, column_wise, data_parallel)"));
}

}  // namespace
}  // namespace emblem
