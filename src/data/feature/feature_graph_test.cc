// Features that are computed from columns and from other features, from a CSV file to batches.
#include <gmock/gmock.h>

#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;

class FeatureGraph : public testing::Test {
 protected:
  Batch read(const std::string& features, const std::string& content) {
    const TestPipeline pipeline("data_config { with_header: true fg_mode: FG_DAG } " + features);
    LoaderOptions options;
    options.input = folder_.write("rows.csv", content);
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    return batch;
  }
  TempFolder folder_;
};

constexpr const char* kCombo = R"(feature_configs { combo_feature { feature_name: "c"
    expression: ["user:u", "item:i"] hash_bucket_size: 100 embedding_dim: 4 } } )";

TEST_F(FeatureGraph, BecomeKeysAsColumnsDo) {
  const Batch batch = read(kCombo,
                           "label,u,i\n1,ua\x1d"
                           "ub,ia\x1d"
                           "ib\n1,uc,ic\n1,,ic\n");
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(37, 90, 5, 97, 60));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 4, 5, 5));
}

TEST_F(FeatureGraph, ReadColumnsThatOtherFeaturesReadInAnotherWay) {
  const Batch batch = read(std::string(kCombo) + R"(
    feature_configs { id_feature { feature_name: "i" num_buckets: 10 embedding_dim: 4 } })",
                           "label,u,i\n1,x,3\n1,,4\n");
  ASSERT_EQ(batch.sparse.size(), 2u);
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 1, 1));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(3, 4));
}

TEST_F(FeatureGraph, ReadOtherFeaturesAfterTheirNormalizer) {
  const Batch batch = read(R"(
    feature_configs { expr_feature { feature_name: "sum" expression: "a + b" variables: ["feature:a", "feature:b"] } }
    feature_configs { raw_feature { feature_name: "a" normalizer: "method=log1p" stub_type: true } }
    feature_configs { raw_feature { feature_name: "b" default_value: "5" } })",
                           "label,a,b\n1,0,1\n1,1.718281828,\n");
  ASSERT_EQ(batch.dense.size(), 4u) << "a is not in batches";
  EXPECT_THAT(batch.dense, ElementsAre(1, 1, FloatNear(6, 1e-5f), 5));
}

TEST_F(FeatureGraph, ThatOnlyOthersReadAreNotInBatches) {
  const Batch batch = read(R"(
    feature_configs { combo_feature { feature_name: "pair" expression: ["user:u", "item:i"] stub_type: true
        hash_bucket_size: 7 embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "all" expression: "feature:pair" hash_bucket_size: 100 embedding_dim: 4 } })",
                           "label,u,i\n1,ua,ia\n1,ug,id\n");
  ASSERT_EQ(batch.sparse.size(), 1u);
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(37, 40));
}

TEST_F(FeatureGraph, OfSequencesHaveTheirElements) {
  const Batch batch = read(R"(
    feature_configs { sequence_feature { sequence_name: "s" sequence_length: 2
      features { id_feature { feature_name: "i" expression: "item:i" hash_bucket_size: 100 embedding_dim: 4 } }
      features { combo_feature { feature_name: "c" expression: ["user:u", "item:i"] hash_bucket_size: 100
                                 embedding_dim: 4 } } } })",
                           "label,u,s__i\n1,ua,abc;efg;hij\n1,ub,hij\n");
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(33, 44, 66));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(2, 42, 23));
  EXPECT_EQ(batch.sparse[1].sequence, 0);
}

TEST_F(FeatureGraph, ThatReadAColumnTheFileDoesNotHaveNameIt) {
  const TestPipeline pipeline(std::string("data_config { with_header: true fg_mode: FG_DAG } ") +
                              kCombo);
  LoaderOptions options;
  options.input = folder_.write("rows.csv", "label,u,item\n1,a,b\n");
  EXPECT_THAT(loader_error(pipeline, options), HasSubstr("rows.csv has no column \"i\""));
}

}  // namespace
}  // namespace emblem
