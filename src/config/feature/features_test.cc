#include "config/feature/features.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

FeatureLayout layout(const std::string& text) {
  return layout_of(parse_pipeline(text, "x.config"));
}

std::string feature_error(const std::string& feature) {
  try {
    layout("feature_configs { " + feature + " }");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(FeatureLayout, KeepsTheOrderAndCountsDenseAndSparseApart) {
  const FeatureLayout features = layout(R"(
      feature_configs { raw_feature { feature_name: "a" } }
      feature_configs { id_feature { feature_name: "x" expression: "user:X" num_buckets: 3 } }
      feature_configs { raw_feature { feature_name: "b" value_dim: 4 expression: "B" } }
      feature_configs { raw_feature { feature_name: "y" boundaries: [1, 2] embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "z" dynamicemb {} } }
      feature_configs { raw_feature { feature_name: "c" } })");
  ASSERT_EQ(features.features.size(), 6u);
  EXPECT_EQ(features.dense_cols, 6);
  EXPECT_EQ(features.sparse_count, 3);
  EXPECT_EQ(features.find("a").dense_begin, 0);
  EXPECT_EQ(features.find("b").dense_begin, 1);
  EXPECT_EQ(features.find("b").dense_cols, 4);
  EXPECT_EQ(features.find("c").dense_begin, 5);
  EXPECT_EQ(features.find("x").sparse_index, 0);
  EXPECT_EQ(features.find("y").sparse_index, 1);
  EXPECT_EQ(features.find("y").kind, FeatureKind::kSparse);
  EXPECT_EQ(features.find("y").dense_cols, 0);
  EXPECT_EQ(features.find("z").sparse_index, 2);
  EXPECT_EQ(features.find("z").config.id_feature().feature_name(), "z");
}

TEST(FeatureLayout, TheColumnDependsOnTheFgMode) {
  const auto columns = [](const std::string& mode) {
    const FeatureLayout features = layout(mode + R"(
        feature_configs { id_feature { feature_name: "x" expression: "user:X" num_buckets: 3 } }
        feature_configs { raw_feature { feature_name: "b" expression: "B" } }
        feature_configs { raw_feature { feature_name: "c" } })");
    return features.find("x").column + features.find("b").column + features.find("c").column;
  };
  EXPECT_EQ(columns("data_config { fg_mode: FG_DAG }"), "XBc");
  EXPECT_EQ(columns("data_config { fg_mode: FG_NORMAL }"), "XBc");
  EXPECT_EQ(columns("data_config { fg_mode: FG_BUCKETIZE }"), "xbc");
  EXPECT_EQ(columns("data_config { fg_mode: FG_NONE }"), "xbc");
  EXPECT_EQ(columns(""), "xbc");
  EXPECT_EQ(columns("semantics_version: 1 data_config { fg_mode: FG_NONE }"), "XBc");
}

TEST(FeatureLayout, OtherFeaturesAndConstantsAreInputsOfADag) {
  const auto inputs = [](const std::string& mode, const std::string& expression) {
    return layout("data_config { fg_mode: " + mode +
                  " } feature_configs { raw_feature { feature_name: 'y' } } feature_configs { "
                  "raw_feature { feature_name: 'x' expression: '" +
                  expression + "' } }")
        .find("x")
        .inputs;
  };
  using Source = FeatureInput::Source;
  EXPECT_EQ(inputs("FG_NORMAL", "feature:y").front().source, Source::kColumn);
  EXPECT_EQ(inputs("FG_DAG", "feature:y").front().source, Source::kFeature);
  EXPECT_EQ(inputs("FG_DAG", "feature:y").front().name, "y");
  EXPECT_EQ(inputs("FG_DAG", "const:3").front().source, Source::kConstant);
  EXPECT_EQ(inputs("FG_DAG", "const:3").front().name, "3");
}

TEST(FeatureLayout, NamesAreFitForFiles) {
  const auto with_table = [](const std::string& name) {
    return feature_error("id_feature { feature_name: 'x' num_buckets: 1 embedding_name: '" + name +
                         "' }");
  };
  EXPECT_EQ(with_table("shared.table-2_x"), "no error");
  EXPECT_EQ(with_table("größe"), "no error");
  EXPECT_EQ(
      with_table("../../evil"),
      "feature \"x\": embedding_name \"../../evil\" begins with \".\"; it names files: use up to "
      "200 letters, digits, \"_\", \"-\" and \".\"");
  EXPECT_THAT(with_table("a/../../evil"), HasSubstr("contains \"/\""));
  EXPECT_THAT(with_table("/etc/evil"), HasSubstr("contains \"/\""));
  EXPECT_THAT(with_table("a\\\\b"), HasSubstr("contains \"\\\""));
  EXPECT_THAT(with_table("a\\nb"), HasSubstr("\"a\\x0ab\" contains a control character"));
  EXPECT_THAT(with_table(""), HasSubstr("is empty"));
  EXPECT_EQ(with_table(std::string(200, 'n')), "no error");
  EXPECT_THAT(with_table(std::string(300, 'n')),
              HasSubstr("nnn...\" has 300 bytes; it names files"));
  EXPECT_THAT(feature_error("raw_feature { feature_name: '../x' }"),
              HasSubstr("feature_name \"../x\""));
  EXPECT_THAT(feature_error("raw_feature { feature_name: 'x' embedding_name: '.y' boundaries: 1 }"),
              HasSubstr("embedding_name \".y\""));
}

TEST(FeatureLayout, AnUnknownNameIsAnErrorWithTheNearest) {
  const FeatureLayout features = layout(
      "feature_configs { raw_feature { feature_name: 'age' } } feature_configs { raw_feature { "
      "feature_name: 'price' } }");
  EXPECT_THAT([&] { features.find("prise"); },
              ThrowsMessage<Error>("there is no feature \"prise\"; did you mean \"price\"?"));
  EXPECT_THAT(
      [&] { features.find("quantity"); },
      ThrowsMessage<Error>("there is no feature \"quantity\"; feature_configs lists all features"));
}

TEST(FeatureLayout, ChecksEachFeature) {
  EXPECT_EQ(feature_error(""),
            "feature_configs[0] is empty; give it an id_feature, a raw_feature or another feature");
  EXPECT_EQ(feature_error("id_feature { num_buckets: 3 }"),
            "feature_configs[0] has no feature_name");
  EXPECT_THAT(feature_error("id_feature { feature_name: 'x' }"),
              HasSubstr("set one of num_buckets, hash_bucket_size, vocab_list, "));
  EXPECT_EQ(feature_error("id_feature { feature_name: 'x' num_buckets: 3 hash_bucket_size: 3 }"),
            "feature \"x\" has more than one of num_buckets hash_bucket_size; keep one of them");
  EXPECT_THAT(feature_error("id_feature { feature_name: 'x' num_buckets: 3 dynamicemb {} }"),
              HasSubstr("more than one of"));
  EXPECT_THAT(feature_error("id_feature { feature_name: 'x' num_buckets: 0 }"),
              HasSubstr("num_buckets is 0"));
  EXPECT_THAT(feature_error("id_feature { feature_name: 'x' hash_bucket_size: 0 }"),
              HasSubstr("hash_bucket_size is 0"));
  EXPECT_THAT(feature_error("id_feature { feature_name: 'x' num_buckets: 1 embedding_dim: 0 }"),
              HasSubstr("embedding_dim is 0"));
  EXPECT_EQ(feature_error("id_feature { feature_name: 'x' num_buckets: 1 pooling: 'max' }"),
            "feature \"x\": pooling is \"max\", expected sum or mean");
  EXPECT_EQ(feature_error("id_feature { feature_name: 'x' num_buckets: 1 data_type: 'INT8' }"),
            "feature \"x\": data_type is \"INT8\", expected FP32, FP16 or BF16");
  EXPECT_THAT(
      feature_error(
          "id_feature { feature_name: 'x' num_buckets: 1 expression: 'user:' } } data_config { "
          "fg_mode: FG_DAG"),
      HasSubstr("names no column"));
  EXPECT_THAT(feature_error("raw_feature { feature_name: 'x' value_dim: 0 }"),
              HasSubstr("value_dim is 0"));
  EXPECT_EQ(feature_error("raw_feature { feature_name: 'x' boundaries: [1, 3, 2] }"),
            "feature \"x\": boundaries must rise, but 2 follows 3");
  EXPECT_THAT(feature_error("raw_feature { feature_name: 'x' boundaries: [1, nan] }"),
              HasSubstr("boundaries[1] is NaN"));
  EXPECT_THAT(feature_error("raw_feature { feature_name: 'x' } } feature_configs { raw_feature { "
                            "feature_name: 'x' }"),
              HasSubstr("two features are called \"x\""));
}

TEST(Features, PiecewiseLinearIsForOneNumber) {
  const auto linear_error = [](const std::string& settings) {
    return feature_error("raw_feature { feature_name: 'x' " + settings + " }");
  };
  EXPECT_EQ(linear_error("piecewise_linear: [1, 3, 2]"),
            "feature \"x\": piecewise_linear must rise, but 2 follows 3");
  EXPECT_THAT(linear_error("piecewise_linear: 1"), HasSubstr("has one edge, expected at least two"));
  EXPECT_THAT(linear_error("piecewise_linear: [1, inf]"), HasSubstr("piecewise_linear[1] is inf"));
  EXPECT_THAT(linear_error("piecewise_linear: [-3e38, 3e38]"), HasSubstr("is too wide"));
  EXPECT_THAT(linear_error("piecewise_linear: [1, 2] boundaries: 1"), HasSubstr("keep one of them"));
  EXPECT_THAT(linear_error("piecewise_linear: [1, 2] value_dim: 2"), HasSubstr("but value_dim 2"));
  EXPECT_THAT(linear_error("piecewise_linear: [1, 2] autodis {} embedding_dim: 4"),
              HasSubstr("piecewise_linear and autodis"));
}

}  // namespace
}  // namespace emblem
