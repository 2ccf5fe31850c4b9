// Tests from input columns to features: every transform, on CSV text, against values written
// out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/load/prediction_layout.h"
#include "core/math/hash.h"
#include "data/feature/number/normalizer.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;

// One batch of a CSV file with header and features.
Batch read_csv(const std::string& content, const std::string& pipeline_text) {
  const TempFolder folder;
  const TestPipeline pipeline(pipeline_text);
  LoaderOptions options;
  options.input = folder.write("rows.csv", content);
  options.max_bad_rows = static_cast<int64_t>(pipeline.config.data_config().max_bad_rows());
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  return batch;
}

std::string pipeline_with(const std::string& features, const std::string& data = "") {
  return "data_config { with_header: true fg_mode: FG_DAG " + data + " } " + features;
}

std::vector<int64_t> keys_of_text(std::vector<std::string> values, uint64_t buckets) {
  std::vector<int64_t> keys;
  for (const std::string& value : values) {
    const uint64_t modulus = buckets == 0 ? (uint64_t{1} << 63) - 1 : buckets;
    keys.push_back(static_cast<int64_t>(fg_hash(value) % modulus));
  }
  return keys;
}

TEST(Transform, RawFeaturesStandSideBySideInConfigurationOrder) {
  const Batch batch = read_csv("label,a,b\n1,2,3\n0,4,\n", pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "b" default_value: "7" } }
    feature_configs { raw_feature { feature_name: "x" expression: "user:a" normalizer: "method=log1p" } })"));
  EXPECT_THAT(batch.dense, ElementsAre(3, FloatNear(std::log(3.0f), 1e-6f), 7,
                                       FloatNear(std::log(5.0f), 1e-6f)));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
}

TEST(Transform, RawVectorsAreSplitBySeparator) {
  const Batch batch = read_csv("label,v\n1,1|2|3\n0,\n0,4||6\n", pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "v" value_dim: 3 separator: "|" default_value: "9" } })",
                                                                               "max_bad_rows: 1"));
  EXPECT_THAT(batch.dense, ElementsAre(1, 2, 3, 9, 9, 9)) << "4||6 has two values and is skipped";
}

TEST(Transform, InfiniteNumbersAreMissingValues) {
  const std::string features = pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "a" default_value: "7" } }
    feature_configs { raw_feature { feature_name: "l" normalizer: "method=log1p" default_value: "3" } }
    feature_configs { raw_feature { feature_name: "v" value_dim: 2 separator: "|" default_value: "5" } }
    feature_configs { raw_feature { feature_name: "b" boundaries: [0, 1] embedding_dim: 4 default_value: "-1" } }
    feature_configs { kv_dot_product { feature_name: "k" query: "user:k" document: "item:d" default_value: "9" } })");
  const Batch batch = read_csv(
      "label,a,l,v,b,k,d\n1,inf,Infinity,1|-inf,+inf,x:1,x:2\n0,1e39,-1e400,inf|2,-INF,x:3e38,x:"
      "3e38\n",
      features);
  EXPECT_THAT(batch.dense, ElementsAre(7, 3, 1, 5, 2, 7, 3, 5, 2, 9));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(0, 0));
}

TEST(Transform, TheSmallestInt64IsAMissingNumber) {
  const std::string features = pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "a" default_value: "7" } }
    feature_configs { raw_feature { feature_name: "i" default_value: "4" } }
    feature_configs { raw_feature { feature_name: "v" value_dim: 2 separator: "|" default_value: "5" } }
    feature_configs { raw_feature { feature_name: "b" boundaries: [0, 1] embedding_dim: 4 default_value: "3" } }
    feature_configs { expr_feature { feature_name: "e" expression: "a + 1" variables: "user:a" default_value: "9" } }
    feature_configs { lookup_feature { feature_name: "l" map: "user:m" key: "item:k" need_discrete: false
                                       default_value: "8" } })",
                                             R"(input_fields { input_name: "i" input_type: INT64 })");
  const std::string smallest = "-9223372036854775808";
  const Batch batch = read_csv("label,a,i,v,b,m,k\n1," + smallest + "," + smallest + ",1|" + smallest +
                                   "," + smallest + ",x:" + smallest +
                                   ",x\n0,-9.223372036854775808e18,-9223372036854775000,2|3,0.5,x:1,x\n",
                               features);
  EXPECT_THAT(batch.dense, ElementsAre(7, 4, 1, 5, 9, 8, 7, 4, 2, 3, 9, 1))
      << "as floats, its neighbours are the same number";
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(2, 1));
}

TEST(Transform, RowsWhoseNumbersBecomeInfiniteAreBad) {
  const Batch batch = read_csv("label,a\n1,0\n0,1e20\n", pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "a" normalizer: "method=minmax,min=0,max=1e-30" } })",
                                                                       "max_bad_rows: 1"));
  EXPECT_THAT(batch.dense, ElementsAre(0));
}

TEST(Transform, FeaturesWithoutInputsHaveNoValues) {
  TestPipeline pipeline(pipeline_with(R"(
    feature_configs { id_feature { feature_name: "session" hash_bucket_size: 50 } }
    feature_configs { id_feature { feature_name: "a" num_buckets: 50 embedding_dim: 4 } }
    model_config { feature_groups { group_name: "deep" feature_names: "a" } })"));
  const FeatureLayout layout = prediction_layout(pipeline.features, pipeline.config.model_config());
  const TempFolder folder;
  LoaderOptions options;
  options.input = folder.write("rows.csv", "a\n3\n4\n");
  options.label_check = LabelCheck::kIgnore;
  Loader loader(pipeline.config.data_config(), layout, options);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.sparse[0].keys, IsEmpty());
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 0, 0));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(3, 4));
}

// In linear time: a pipeline may come from a client.
TEST(Transform, FeaturesThatOthersNeedAreFoundThroughLongChains) {
  std::string features = R"(feature_configs { id_feature { feature_name: "c0" num_buckets: 9 } } )";
  constexpr int kLength = 2000;
  for (int i = 1; i < kLength; ++i)
    features += cat("feature_configs { combo_feature { feature_name: 'c", i,
                    "' expression: ['feature:c", i - 1, "', 'item:y'] hash_bucket_size: 9 } } ");
  TestPipeline pipeline(pipeline_with(
      cat(features, "model_config { feature_groups { group_name: 'deep' feature_names: 'c",
          kLength - 1, "' } }")));
  const FeatureLayout layout = prediction_layout(pipeline.features, pipeline.config.model_config());
  for (const FeatureSpec& feature : layout.features) EXPECT_FALSE(feature.inputs.empty());
}

TEST(Transform, FeaturesThatNothingReadsAreNotComputed) {
  const TestPipeline pipeline(pipeline_with(R"(
    feature_configs { combo_feature { feature_name: "key" expression: ["user:x", "item:y"] hash_bucket_size: 9 } }
    feature_configs { expr_feature { feature_name: "e" expression: "z*2" variables: ["feature:n"] } }
    feature_configs { raw_feature { feature_name: "n" expression: "item:z" } }
    feature_configs { raw_feature { feature_name: "b" } }
    feature_configs { sequence_feature { sequence_name: "s" features { id_feature { feature_name: "i" num_buckets: 9
      embedding_dim: 4 } } features { raw_feature { feature_name: "r" } } } }
    feature_configs { sequence_feature { sequence_name: "t" sequence_delim: ";" features { id_feature {
      feature_name: "i" num_buckets: 9 embedding_dim: 4 } } features { raw_feature { feature_name: "p" } }
      features { raw_feature { feature_name: "q" } } } }
    model_config { feature_groups { group_name: "deep" feature_names: ["b"]
      sequence_groups { group_name: "g" feature_names: "t__q" } }
      metrics { grouped_auc { grouping_key: "key" } } })"));
  const auto& model = pipeline.config.model_config();
  const auto read = [&](const FeatureLayout& layout, const std::string& rows) {
    const TempFolder folder;
    LoaderOptions options;
    options.input = folder.write("rows.csv", rows);
    options.label_check = LabelCheck::kIgnore;
    Batch batch;
    EXPECT_TRUE(Loader(pipeline.config.data_config(), layout, options).next(batch));
    return batch;
  };
  const std::string rows = "b,t__q,x,y\n3,5;6,u,v\n4,7,u,w\n";
  const Batch predicted = read(prediction_layout(pipeline.features, model), rows);
  EXPECT_THAT(predicted.dense, ElementsAre(0, 0, 3, 0, 0, 4)) << "e, n, b";
  EXPECT_THAT(predicted.sparse[0].keys, IsEmpty());
  EXPECT_THAT(predicted.sparse[1].offsets, ElementsAre(0)) << "s__i: no elements";
  EXPECT_THAT(predicted.sequences[0].offsets, ElementsAre(0, 0, 0));
  EXPECT_THAT(predicted.sparse[2].offsets, ElementsAre(0, 0, 0, 0)) << "t__i: a bag per element";
  EXPECT_THAT(predicted.sequences[1].offsets, ElementsAre(0, 2, 3));
  EXPECT_THAT(predicted.sequences[1].numbers, ElementsAre(5, 0, 6, 0, 7, 0)) << "q, p";
  const Batch trained = read(training_layout(pipeline.features, model), rows);
  EXPECT_EQ(trained.sparse[0].keys.size(), 2u) << "metrics group by it";
  EXPECT_THAT(trained.dense, ElementsAre(0, 0, 3, 0, 0, 4));
}

TEST(Transform, BoundariesGiveTheNumberOfBoundariesNotAbove) {
  const Batch batch = read_csv("label,a\n1,-1\n0,0\n1,0.5\n0,10\n0,11\n1,\n", pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "a" boundaries: [0, 1, 10] embedding_dim: 4 default_value: "5" } })"));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(0, 1, 1, 3, 3, 2));
  EXPECT_THAT(batch.sparse[0].offsets, IsEmpty());
}

TEST(Transform, NumbersFillTheBinsBelowThem) {
  const Batch batch = read_csv("label,a,z\n1,3,0\n0,,1\n1,20,2\n0,-5,3\n", pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "a" default_value: "8" piecewise_linear: [0, 4, 12] } }
    feature_configs { raw_feature { feature_name: "z" } }
    feature_configs { raw_feature { feature_name: "l" expression: "user:z" normalizer: "method=minmax,min=0,max=4"
                                    piecewise_linear: [0, 1] } })"));
  EXPECT_THAT(batch.dense, ElementsAre(0.75f, 0, 0, 0,     //
                                       1, 0.5f, 1, 0.25f,  // the default
                                       1, 1, 2, 0.5f,      //
                                       0, 0, 3, 0.75f));
}

TEST(Transform, TextThatIsNoNumberFillsNoBin) {
  const Batch batch = read_csv("label,a\n1,3\n0,x\n", pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "a" piecewise_linear: [0, 4] } })",
                                                                    "max_bad_rows: 1"));
  EXPECT_THAT(batch.dense, ElementsAre(0.75f));
}

TEST(Transform, TextKeysAreHashed) {
  const Batch batch = read_csv("label,a,b\n1,red,42\n0,green,43\n", pipeline_with(R"(
    feature_configs { id_feature { feature_name: "a" hash_bucket_size: 50 embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "b" embedding_dim: 4 dynamicemb { max_capacity: 9 } } })"));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAreArray(keys_of_text({"red", "green"}, 50)));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAreArray(keys_of_text({"42", "43"}, 0)));
}

TEST(Transform, IntegerKeysAreHashedAsTextOrKept) {
  const Batch batch = read_csv(
      "label,a,b\n1,-5,42\n0,18446744073709551615,43\n",
      pipeline_with(
          R"(
    feature_configs { id_feature { feature_name: "a" embedding_dim: 4 dynamicemb { max_capacity: 9 } } }
    feature_configs { id_feature { feature_name: "b" hash_bucket_size: 10 embedding_dim: 4 } })",
          R"(input_fields { input_name: "a" input_type: INT64 } input_fields { input_name: "b" input_type: INT32 })"));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(-5, -1));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAreArray(keys_of_text({"42", "43"}, 10)));
}

TEST(Transform, BagsAreSplitBySeparatorAndByTheFgSeparator) {
  const Batch batch = read_csv(
      "label,a\n1,1;2\x03"
      "3\n0,\n0,4\n",
      pipeline_with(R"(
    feature_configs { id_feature { feature_name: "a" num_buckets: 10 embedding_dim: 4 separator: ";" } })"));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 3, 3, 4));
  EXPECT_THAT(batch.sparse[0].weights, IsEmpty());
}

TEST(Transform, WeightedBagsKeepTheirWeights) {
  const Batch batch = read_csv("label,a\n1,x:0.5\x1dy:2\n0,\n0,a:b:3\n", pipeline_with(R"(
    feature_configs { id_feature { feature_name: "a" hash_bucket_size: 10 embedding_dim: 4 weighted: true
                                   default_value: "none" } })"));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAreArray(keys_of_text({"x", "y", "none", "a:b"}, 10)));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(batch.sparse[0].weights, ElementsAre(0.5f, 2, 1, 3));
}

TEST(Transform, MissingIdsBecomeTheDefaultOrAnEmptyBag) {
  const char* rows = "label,a,b\n1,,5\n0,3,\n";
  const Batch batch = read_csv(rows, pipeline_with(R"(
    feature_configs { id_feature { feature_name: "a" num_buckets: 10 embedding_dim: 4 default_value: "9" } }
    feature_configs { id_feature { feature_name: "b" num_buckets: 10 embedding_dim: 4 } })"));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(9, 3));
  EXPECT_THAT(batch.sparse[0].offsets, IsEmpty());
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(5));
  EXPECT_THAT(batch.sparse[1].offsets, ElementsAre(0, 1, 1));
}

TEST(Transform, OneColumnMayFeedManyFeaturesLabelsAndWeights) {
  const Batch batch = read_csv("label,a,w\n1,3,0.5\n0,4,2\n",
                               pipeline_with(R"(
    feature_configs { raw_feature { feature_name: "number" expression: "a" } }
    feature_configs { id_feature { feature_name: "id" expression: "a" num_buckets: 10 embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "id2" expression: "a" num_buckets: 20 embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "word" expression: "a" hash_bucket_size: 10 embedding_dim: 4 } })",
                                             "label_fields: 'label' sample_weight_fields: 'w'"));
  EXPECT_THAT(batch.dense, ElementsAre(3, 4));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(3, 4));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(3, 4));
  EXPECT_THAT(batch.sparse[2].keys, ElementsAreArray(keys_of_text({"3", "4"}, 10)));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
  EXPECT_THAT(batch.sample_weights, ElementsAre(0.5f, 2));
}

TEST(Transform, TheFirstOfSeveralLabelsIsRead) {
  const Batch batch =
      read_csv("clk,buy,a\n1,0,3\n0,1,4\n1,1,5\n",
               pipeline_with(R"(feature_configs { raw_feature { feature_name: "a" } })",
                             "label_fields: 'clk' label_fields: 'buy'"));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 1));
}

TEST(Transform, NumbersOfBinaryFormatsMayBeIds) {
  const TempFolder folder;
  const std::vector<TestRow> rows = {{1, {5, 7}, {1, 2, 3}}, {0, {6, 8}, {1, 2, 3}}};
  const TestPipeline pipeline(R"(
    data_config { dataset_type: RawDataset fg_mode: FG_DAG num_dense: 2 num_sparse: 3 }
    feature_configs { id_feature { feature_name: "I1" num_buckets: 10 embedding_dim: 4 } }
    feature_configs { raw_feature { feature_name: "C2" } })");
  LoaderOptions options;
  options.input = folder.write("a.bin", as_raw(rows));
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(5, 6));
  EXPECT_THAT(batch.dense, ElementsAre(2, 2));
}

TEST(Transform, LibfmValuesAreWeightsAndWholeLinesAreBags) {
  const TempFolder folder;
  const TestPipeline pipeline(R"(
    data_config { dataset_type: LibfmDataset fg_mode: FG_DAG }
    feature_configs { id_feature { feature_name: "f2" num_buckets: 10 embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "features" num_buckets: 10 embedding_dim: 4 } })");
  LoaderOptions options;
  options.input = folder.write("a.libfm", "1 2:1 3:0.5\r\n-1 4:1\r\n0 5:1 6:1 7:1");
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 0));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(3, 6));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(batch.sparse[0].weights, ElementsAre(0.5f, 1));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(batch.sparse[1].offsets, ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(batch.sparse[1].weights, ElementsAre(1, 0.5f, 1, 1, 1, 1));
}

TEST(Transform, DefaultsThatCannotBeAreRefused) {
  const auto error = [](const std::string& feature) {
    const TempFolder folder;
    LoaderOptions options;
    options.input = folder.write("a.csv", "label,a\n1,2\n");
    return loader_error(TestPipeline(pipeline_with("feature_configs { " + feature + " }")),
                        options);
  };
  EXPECT_THAT(
      error("id_feature { feature_name: 'a' num_buckets: 4 embedding_dim: 2 default_value: '4' }"),
      HasSubstr("feature a: default_value 4 is outside [0, 4)"));
  EXPECT_THAT(
      error("id_feature { feature_name: 'a' num_buckets: 4 embedding_dim: 2 default_value: 'x' }"),
      HasSubstr("feature a: default_value \"x\" is not an integer"));
  EXPECT_THAT(error("raw_feature { feature_name: 'a' default_value: 'x' }"),
              HasSubstr("feature a: default_value \"x\" is not a number"));
  EXPECT_THAT(error("raw_feature { feature_name: 'a' normalizer: 'method=cube' }"),
              HasSubstr("feature a: normalizer \"method=cube\": unknown method \"cube\""));
}

std::vector<float> transformed(const std::string& method, std::vector<float> values) {
  Normalizer::parse(method, "x").apply(values.data(), static_cast<int64_t>(values.size()));
  return values;
}

TEST(Normalizer, ComputesEveryMethod) {
  const auto near = [](double value) { return FloatNear(static_cast<float>(value), 2e-6f); };
  EXPECT_THAT(transformed("", {1, 2}), ElementsAre(1, 2));
  EXPECT_THAT(transformed("method=log1p", {0, 1.5, -3}), ElementsAre(0, near(std::log1p(1.5)), 0));
  EXPECT_THAT(transformed("method=log,offset=3", {0, -2, -3, -9}),
              ElementsAre(near(std::log(3)), 0, near(std::log(1e-6)), near(std::log(1e-6))));
  EXPECT_THAT(transformed("method=zscore,mean=2,standard_deviation=4", {10}), ElementsAre(2));
  EXPECT_THAT(transformed("method=minmax,min=2,max=4", {3}), ElementsAre(0.5));
  EXPECT_THAT(transformed("method=log10,threshold=1e-3,default=-10", {1000, 1e-4f}),
              ElementsAre(near(3), -10));
  for (const char* expression : {"log(x+3)", "log(3 + x)", "log( x + 3.0 )"}) {
    EXPECT_THAT(transformed(std::string("method=expression,expr=") + expression, {1}),
                ElementsAre(near(std::log(4))));
  }
  EXPECT_THAT(transformed("method=expression,expr=log(x)", {8}), ElementsAre(near(std::log(8))));
  EXPECT_THAT(transformed("method=expression,expr=log(x-1)", {8}), ElementsAre(near(std::log(7))));
  EXPECT_THAT(transformed("method=expression,expr=log1p(x)", {8}), ElementsAre(near(std::log(9))));
}

TEST(Normalizer, RefusesWhatItDoesNotKnow) {
  for (const char* bad :
       {"log1p", "method=zscore,mean=1", "method=zscore,mean=1,standard_deviation=0",
        "method=minmax,min=3,max=3", "method=log,offset=x", "method=log1p,x=1",
        "method=expression,expr=sine(x)", "method=expression,expr=log(y+1)"}) {
    EXPECT_THROW(Normalizer::parse(bad, "x"), Error) << bad;
  }
}

}  // namespace
}  // namespace emblem
