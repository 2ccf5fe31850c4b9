// What TorchEasyRec's feature generation modes do to features, and what models of semantics_version
// 1 keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/math/hash.h"
#include "data/feature/transform.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

constexpr const char* kFeatures = R"(
    feature_configs { raw_feature { feature_name: "n" expression: "item:m" normalizer: "method=log,offset=3"
                                    default_value: "0" fg_encoded_default_value: "-2" } }
    feature_configs { raw_feature { feature_name: "b" boundaries: [10, 20] embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "h" hash_bucket_size: 100 embedding_dim: 4 default_value: "abc"
                                   fg_encoded_default_value: "99" } }
    feature_configs { id_feature { feature_name: "d" dynamicemb { max_capacity: 9 } embedding_dim: 4 } })";

TestPipeline pipeline_of(const std::string& settings, const std::string& features = kFeatures) {
  return TestPipeline("data_config { with_header: true " + settings + " }" + features);
}

Batch read(const TestPipeline& pipeline, const std::string& content) {
  const TempFolder folder;
  LoaderOptions options;
  options.input = folder.write("rows.csv", content);
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  return batch;
}

std::string error(const TestPipeline& pipeline, const std::string& content) {
  const TempFolder folder;
  LoaderOptions options;
  options.input = folder.write("rows.csv", content);
  return loader_error(pipeline, options);
}

TEST(FgMode, NoneTakesColumnsNamedAsTheFeaturesAsTheyAre) {
  const Batch batch = read(pipeline_of("fg_mode: FG_NONE"),
                           "label,n,m,b,h,d\n1,5,7,2,42,-3\n0,,7,0,,4\x03"
                           "5\n");
  EXPECT_THAT(batch.dense, ElementsAre(5, -2))
      << "neither normalized nor of the expression's column";
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(2, 0))
      << "a raw feature with boundaries holds buckets";
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(42, 99));
  EXPECT_THAT(batch.sparse[2].keys, ElementsAre(-3, 4, 5));
  EXPECT_THAT(batch.sparse[2].offsets, ElementsAre(0, 1, 3));
}

TEST(FgMode, NoneIsTheDefault) {
  EXPECT_EQ(describe(read(pipeline_of(""), "label,n,b,h,d\n1,5,2,42,3\n")),
            describe(read(pipeline_of("fg_mode: FG_NONE"), "label,n,b,h,d\n1,5,2,42,3\n")));
}

TEST(FgMode, NoneSaysWhatToDoAboutValuesThatAreNotFinal) {
  const TestPipeline none = pipeline_of("");
  EXPECT_THAT(error(none, "label,n,b,h,d\n1,5,2,red,3\n"),
              HasSubstr("rows.csv:2: column h: \"red\" is not an integer (expected a whole number "
                        "of 64 bits or an "
                        "empty field; fg_mode FG_NONE takes ids as they are; set data_config { "
                        "fg_mode: FG_DAG }"));
  EXPECT_THAT(error(none, "label,n,b,h,d\n1,5,2,100,3\n"),
              HasSubstr("id 100 is outside a static table of hash_bucket_size 100 (expected 0 to "
                        "99); fg_mode FG_NONE "
                        "takes ids as they are, set data_config { fg_mode: FG_DAG }"));
  EXPECT_THAT(
      error(none, "label,n,b,h,d\n1,5,3,1,3\n"),
      HasSubstr("outside a static table of 2 boundaries (expected 0 to 2); fg_mode FG_NONE"));
  const TestPipeline no_default =
      pipeline_of("", R"(feature_configs { raw_feature { feature_name: "n" } })");
  EXPECT_THAT(
      error(no_default, "label,n\n1,5\n0,\n"),
      HasSubstr(
          "rows.csv:3: feature n is missing; fg_mode FG_NONE takes values as they are: give it a "
          "fg_encoded_default_value, or set data_config { fg_mode: FG_DAG }"));
}

TEST(FgMode, NormalAndDagReadExpressionsAndTransform) {
  for (const char* mode : {"fg_mode: FG_NORMAL", "fg_mode: FG_DAG"}) {
    const Batch batch = read(pipeline_of(mode), "label,m,b,h,d\n1,7,15,xyz,7\n0,,99,,7\n");
    EXPECT_THAT(batch.dense, ElementsAre(FloatNear(std::log(10.0f), 1e-5f), 0)) << mode;
    EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2));
    EXPECT_THAT(batch.sparse[1].keys, ElementsAre(13, 33));
    const auto key = static_cast<int64_t>(fg_hash("7") % ((uint64_t{1} << 63) - 1));
    EXPECT_THAT(batch.sparse[2].keys, ElementsAre(key, key));
  }
}

TEST(FgMode, BucketizeHashesAndCutsButDoesNotNormalize) {
  const Batch batch =
      read(pipeline_of("fg_mode: FG_BUCKETIZE"), "label,n,b,h,d\n1,7,15,xyz,7\n0,,99,,7\n");
  EXPECT_THAT(batch.dense, ElementsAre(7, 0));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(13, 33));
}

// The published test vectors of the normalizers.
TEST(FgMode, DefaultsAreFinalValues) {
  const auto dense = [](const std::string& settings) {
    const TestPipeline dag =
        pipeline_of("fg_mode: FG_DAG",
                    "feature_configs { raw_feature { feature_name: 'n' " + settings + " } }");
    return read(dag, "label,n\n1,\n").dense[0];
  };
  EXPECT_EQ(dense("normalizer: 'method=log10' default_value: '0.01'"), 0.01f);
  EXPECT_EQ(
      dense("normalizer: 'method=zscore,mean=0.1,standard_deviation=10' default_value: '0.1'"),
      0.1f);
  EXPECT_EQ(dense("normalizer: 'method=expression,expr=log(x+3)' default_value: '0'"), 0.0f);
}

TEST(FgMode, WithoutADefaultAMissingNumberIsAnEmptyBagOrABadRow) {
  const TestPipeline buckets = pipeline_of("fg_mode: FG_DAG", R"(feature_configs {
      raw_feature { feature_name: "b" boundaries: [10, 20] embedding_dim: 4 default_value: "" } })");
  const Batch batch = read(buckets, "label,b\n1,15\n0,\n1,30\n");
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 1, 1, 2));
  const TestPipeline number =
      pipeline_of("fg_mode: FG_DAG",
                  R"(feature_configs { raw_feature { feature_name: "n" default_value: "" } })");
  EXPECT_THAT(error(number, "label,n\n1,5\n0,\n"),
              HasSubstr("rows.csv:3: feature n is missing and has no default_value"));
}

TEST(FgMode, TheFirstVersionNormalizesDefaultsAndHasItsOwnHash) {
  const TestPipeline old(std::string("semantics_version: 1 data_config { with_header: true }") +
                         kFeatures);
  const Batch batch = read(old, "label,m,b,h,d\n1,7,15,xyz,7\n0,,99,,7\n");
  EXPECT_THAT(batch.dense,
              ElementsAre(FloatNear(std::log(10.0f), 1e-5f), FloatNear(std::log(3.0f), 1e-5f)));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(static_cast<int64_t>(hash_string("xyz") % 100),
                                                static_cast<int64_t>(hash_string("abc") % 100)));
  EXPECT_EQ(batch.sparse[2].keys[0], static_cast<int64_t>(hash_string("7")));
}

TEST(FgMode, TheFirstVersionMixesIntegers) {
  const TestPipeline old(R"(semantics_version: 1
    data_config { with_header: true input_fields { input_name: "h" input_type: INT64 } }
    feature_configs { id_feature { feature_name: "h" hash_bucket_size: 10 embedding_dim: 4 } })");
  EXPECT_THAT(
      read(old, "label,h\n1,42\n0,43\n").sparse[0].keys,
      ElementsAre(static_cast<int64_t>(mix64(42) % 10), static_cast<int64_t>(mix64(43) % 10)));
}

TEST(FgMode, NumbersMayBeAmountsDatesAndHaveMissingValuesOfTheirOwn) {
  const TestPipeline pipeline = pipeline_of("fg_mode: FG_DAG", R"(
    feature_configs { raw_feature { feature_name: "n" na_strings: ["?", "-999", "inf"] default_value: "-1" } }
    feature_configs { raw_feature { feature_name: "a" number_format: COMMA_GROUPS } }
    feature_configs { raw_feature { feature_name: "hour" expression: "item:d" date_part: HOUR } }
    feature_configs { raw_feature { feature_name: "day" expression: "item:d" date_part: WEEKDAY
                                    boundaries: [0.5, 1.5, 2.5, 3.5, 4.5, 5.5] default_value: "" embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "id" hash_bucket_size: 100 embedding_dim: 4 } })");
  const Batch batch = read(pipeline,
                           "label,n,a,d,id\n"
                           "1,5,\"$3,456\",2024-05-01 13:30,?\n"
                           "0,?,7,,NA\n"
                           "0,-999.0,NA,2024-05-06,-999\n"
                           "0,inf,(2),20240506,x\n");
  EXPECT_THAT(batch.dense, ElementsAre(5, 3456, 13, -1, 7, 0, -1, 0, 0, -1, -2, 0));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(2, 0, 0));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 1, 1, 2, 3));
  EXPECT_EQ(batch.sparse[1].keys.size(), 4u) << "texts of numbers are values of ids";
  EXPECT_THAT(error(pipeline, "label,n,a,d,id\n1,5,x,2024-05-01,a\n"),
              HasSubstr("\"x\" cannot be read (expected a number like 1,234.50 or an empty field"));
  EXPECT_THAT(error(pipeline, "label,n,a,d,id\n1,5,1,May,a\n"),
              HasSubstr("\"May\" cannot be read (expected a date like 2024-05-01 10:00"));
}

}  // namespace
}  // namespace emblem
