#include "model/lookup/table_config.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ParseInitFn, ReadsTorchsSpellings) {
  const Initializer uniform = parse_init_fn("nn.init.uniform_,a=-0.5,b=0.25");
  EXPECT_EQ(uniform.kind, Initializer::Kind::kUniform);
  EXPECT_EQ(uniform.a, -0.5f);
  EXPECT_EQ(uniform.b, 0.25f);
  EXPECT_EQ(parse_init_fn("nn.init.trunc_normal_,std=0.1").kind,
            Initializer::Kind::kTruncatedNormal);
  EXPECT_EQ(parse_init_fn("nn.init.constant_,val=3").a, 3.0f);
}

TEST(ParseInitFn, RefusesOthersWithTheChoices) {
  EXPECT_THAT(
      [] { parse_init_fn("nn.init.orthogonal_"); },
      ThrowsMessage<Error>(testing::AllOf(HasSubstr("orthogonal"), HasSubstr("nn.init.uniform_"))));
  EXPECT_THAT([] { parse_init_fn("nn.init.uniform_,a"); },
              ThrowsMessage<Error>(HasSubstr("NAME=VALUE")));
  EXPECT_THAT([] { parse_init_fn("nn.init.uniform_,a=x"); },
              ThrowsMessage<Error>(HasSubstr("\"x\"")));
  EXPECT_THAT([] { parse_init_fn("nn.init.constant_,val=nan"); },
              ThrowsMessage<Error>(HasSubstr("\"nan\" is not a number")));
  EXPECT_THAT([] { parse_init_fn("nn.init.uniform_,a=0,c=1"); },
              ThrowsMessage<Error>(HasSubstr("has no argument \"c\"")));
}

class LookupTablesTest : public testing::Test {
 protected:
  LookupTables tables_of(const std::string& features, const std::string& train = "") {
    config_ = parse_pipeline(
        "train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 initial_accumulator_value: "
        "2 } }"
        " regularization { embedding_l2: 0.5 } seed: 9 " +
            train + "}" + features +
            "model_config { feature_groups { group_name: 'deep' feature_names: ['a', 'b'] } dnn {} "
            "}",
        "test");
    layout_ = layout_of(config_);
    return tables_of_lookup(config_, lookup_groups_of(config_.model_config(), layout_, 1).at(0));
  }
  config::PipelineConfig config_;
  FeatureLayout layout_;
};

TEST_F(LookupTablesTest, AsksForDeterministicSumsWhereTheConfigDoes) {
  const std::string features =
      "feature_configs { id_feature { feature_name: 'a' embedding_dim: 4 num_buckets: 10 } }"
      "feature_configs { id_feature { feature_name: 'b' embedding_dim: 4 num_buckets: 10 } }";
  EXPECT_EQ(tables_of(features).lookup.sums, Sums::kFast);
  EXPECT_EQ(tables_of(features, "deterministic: true").lookup.sums, Sums::kDeterministic);
}

TEST_F(LookupTablesTest, RoundsRowsInSixteenBitsStochasticallyUnlessToldOtherwise) {
  const std::string features =
      "feature_configs { id_feature { feature_name: 'a' embedding_dim: 4 num_buckets: 10 "
      "data_type: 'FP16' } }"
      "feature_configs { id_feature { feature_name: 'b' embedding_dim: 4 num_buckets: 10 } }";
  const LookupTables tables = tables_of(features);
  EXPECT_EQ(tables.tables.at(0).rounding, Rounding::kStochastic);
  EXPECT_EQ(tables.tables.at(1).rounding, Rounding::kToNearest);
  EXPECT_EQ(tables_of(features, "stochastic_rounding: false").tables.at(0).rounding,
            Rounding::kToNearest);
}

TEST_F(LookupTablesTest, GivesEachFeatureItsOwnTableUnlessTheyShareAName) {
  const LookupTables own = tables_of(
      "feature_configs { id_feature { feature_name: 'a' embedding_dim: 4 num_buckets: 10 } }"
      "feature_configs { id_feature { feature_name: 'b' embedding_dim: 8 num_buckets: 20 pooling: "
      "'mean' } }");
  ASSERT_EQ(own.tables.size(), 2u);
  EXPECT_EQ(own.tables[1].name, "b_emb");
  EXPECT_EQ(own.tables[1].capacity, 20);
  EXPECT_EQ(own.tables[0].initial_accumulator, 2.0f);
  EXPECT_EQ(own.tables[0].l2, 0.5f);
  EXPECT_NE(own.tables[0].seed, own.tables[1].seed);
  EXPECT_EQ(own.uses[1].pooling, Pooling::kMean);

  const LookupTables shared = tables_of(
      "feature_configs { id_feature { feature_name: 'a' embedding_name: 't' embedding_dim: 4 "
      "num_buckets: 10 } }"
      "feature_configs { id_feature { feature_name: 'b' embedding_name: 't' embedding_dim: 4 "
      "num_buckets: 10 } }");
  ASSERT_EQ(shared.tables.size(), 1u);
  EXPECT_EQ(shared.uses[1].table, 0);
}

TEST_F(LookupTablesTest, ReadsDynamicTables) {
  const LookupTables dynamic = tables_of(
      "feature_configs { id_feature { feature_name: 'a' embedding_dim: 4 data_type: 'BF16' "
      "dynamicemb { max_capacity: 100 "
      "score_strategy: 'LFU' initializer_args { mode: 'NORMAL' std_dev: 0.5 } "
      "init_capacity_per_rank: 70 frequency_admission_strategy { threshold: 3 } } } }"
      "feature_configs { id_feature { feature_name: 'b' embedding_dim: 4 dynamicemb { "
      "max_capacity: 100 score_strategy: 'NO_EVICTION' } } }");
  EXPECT_EQ(dynamic.tables[0].kind, TableKind::kDynamic);
  EXPECT_EQ(dynamic.tables[0].eviction, Eviction::kLfu);
  EXPECT_EQ(dynamic.tables[0].capacity, 100);
  EXPECT_EQ(dynamic.tables[0].initial_capacity, 70);
  EXPECT_EQ(dynamic.tables[0].admission_threshold, 3);
  EXPECT_EQ(dynamic.tables[0].dtype, DType::kBf16);
  EXPECT_EQ(dynamic.tables[0].initializer.b, 0.5f);
  EXPECT_EQ(dynamic.tables[1].eviction, Eviction::kNone);
  EXPECT_EQ(dynamic.tables[1].capacity, 0);  // grows
  EXPECT_EQ(dynamic.tables[1].initial_capacity, 0);
}

TEST_F(LookupTablesTest, WhatAnInitializerDoesNotSayFollowsFromTheTable) {
  const LookupTables dynamic = tables_of(
      "feature_configs { id_feature { feature_name: 'a' embedding_dim: 4 dynamicemb { "
      "max_capacity: 100 initializer_args { lower: -0.5 } eval_initializer_args { value: 2 } } } }"
      "feature_configs { id_feature { feature_name: 'b' embedding_dim: 16 dynamicemb { "
      "max_capacity: 100 initializer_args { mode: 'NORMAL' } "
      "eval_initializer_args { mode: 'UNIFORM' } } } }");
  using Kind = Initializer::Kind;
  EXPECT_EQ(dynamic.tables[0].initializer.kind, Kind::kUniform);
  EXPECT_EQ(dynamic.tables[0].initializer.a, -0.5f);
  EXPECT_FLOAT_EQ(dynamic.tables[0].initializer.b, 0.1f) << "of 100 rows";
  EXPECT_EQ(dynamic.tables[0].missing.kind, Kind::kConstant);
  EXPECT_EQ(dynamic.tables[0].missing.a, 2.0f);
  EXPECT_EQ(dynamic.tables[1].initializer.kind, Kind::kNormal);
  EXPECT_FLOAT_EQ(dynamic.tables[1].initializer.b, 0.25f) << "of 16 columns";
  EXPECT_EQ(dynamic.tables[1].missing.kind, Kind::kUniform);
  EXPECT_FLOAT_EQ(dynamic.tables[1].missing.b, 0.1f);
}

TEST_F(LookupTablesTest, RefusesUnknownNamesWithTheChoices) {
  EXPECT_THAT(
      [&] {
        tables_of(
            "feature_configs { id_feature { feature_name: 'a' embedding_dim: 4 dynamicemb { "
            "max_capacity: 9 score_strategy: 'MRU' } } }"
            "feature_configs { id_feature { feature_name: 'b' embedding_dim: 4 num_buckets: 9 } }");
      },
      ThrowsMessage<Error>(
          testing::AllOf(HasSubstr("feature a"), HasSubstr("MRU"), HasSubstr("TIMESTAMP"))));
}

}  // namespace
}  // namespace emblem
