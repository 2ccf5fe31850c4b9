#include "config/feature/feature_warnings.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> warnings(const std::string& features, const std::string& mode = "FG_DAG") {
  const config::PipelineConfig config =
      parse_pipeline(cat("data_config { fg_mode: ", mode, " } ", features), "test");
  return feature_warnings(config, layout_of(config));
}

std::string raw(const std::string& settings) {
  return cat("feature_configs { raw_feature { feature_name: 'r' ", settings, " } } ");
}

TEST(FeatureWarnings, NumbersHaveNoTable) {
  for (const char* setting : {"init_fn: 'x'", "trainable: false", "data_type: 'FP16'",
                              "pooling: 'mean'", "embedding_name: 'e'", "embedding_constraints {}"})
    EXPECT_THAT(warnings(raw(setting)),
                ElementsAre(HasSubstr("of feature \"r\" has no effect: numbers have no table")))
        << setting;
  EXPECT_THAT(warnings(raw("embedding_dim: 4")),
              ElementsAre("embedding_dim of feature \"r\" has no effect: a number becomes a vector "
                          "with boundaries, autodis or mlp"));
  EXPECT_THAT(warnings(raw("embedding_dim: 4 mlp {}")), IsEmpty());
  EXPECT_THAT(warnings(raw("embedding_dim: 4 boundaries: 1 init_fn: 'x' pooling: 'mean'")),
              IsEmpty());
}

TEST(FeatureWarnings, OneLineIsForAllFeaturesOfAKind) {
  EXPECT_THAT(
      warnings("feature_configs { raw_feature { feature_name: 'r{1..5}' use_mask: true } }"),
      ElementsAre("use_mask of features \"r1\", \"r2\", \"r3\" and 2 more has no effect: "
                  "data_config.sample_mask_prob is not supported"));
}

TEST(FeatureWarnings, DefaultsAreOfTheirModeAndVocabulary) {
  const std::string encoded = raw("fg_encoded_default_value: '1'");
  EXPECT_THAT(warnings(encoded), ElementsAre(HasSubstr("it is of fg_mode FG_NONE")));
  EXPECT_THAT(warnings(encoded, "FG_NONE"), IsEmpty());
  const auto id = [](const std::string& settings) {
    return cat("feature_configs { id_feature { feature_name: 'i' embedding_dim: 4 ", settings,
               " } }");
  };
  EXPECT_THAT(warnings(id("num_buckets: 4 default_bucketize_value: 1 asset_dir: 'x'")),
              ElementsAre(HasSubstr("asset_dir of feature \"i\" has no effect: there is no"),
                          HasSubstr("default_bucketize_value of feature \"i\" has no effect")));
  EXPECT_THAT(warnings(id("vocab_list: 'a' default_bucketize_value: 0")), IsEmpty());
}

TEST(FeatureWarnings, SettingsOfSequencesAreOfSequences) {
  EXPECT_THAT(warnings(raw("sequence_length: 3")),
              ElementsAre("sequence_length of feature \"r\" has no effect: it is of sequences"));
  EXPECT_THAT(warnings("feature_configs { sequence_raw_feature { feature_name: 'r' "
                       "sequence_length: 3 sequence_delim: '|' } }"),
              IsEmpty());
  EXPECT_THAT(warnings("feature_configs { sequence_raw_feature { feature_name: 'r' "
                       "expression: 'user:x' sequence_fields: ['x', 'y'] } }"),
              ElementsAre("sequence_fields of feature \"r\" has \"y\", which is not an input of "
                          "it"));
}

TEST(FeatureWarnings, AMemberHasTheLengthOfItsSequence) {
  const auto member = [](const std::string& settings) {
    return cat(
        "feature_configs { sequence_feature { sequence_name: 's' sequence_length: 9 features {"
        " raw_feature { feature_name: 'r' ",
        settings, " } } } }");
  };
  EXPECT_THAT(warnings(member("")), IsEmpty());
  EXPECT_THAT(warnings(member("sequence_length: 3")),
              ElementsAre("sequence_length of a feature of sequence_feature \"s\" has no effect; "
                          "set that of the sequence_feature"));
}

TEST(FeatureWarnings, AnInitializerReadsWhatItsModeNeeds) {
  const auto table = [](const std::string& args) {
    return cat(
        "feature_configs { id_feature { feature_name: 'i' embedding_dim: 4 dynamicemb { "
        "max_capacity: 9 initializer_args { ",
        args, " } } } }");
  };
  EXPECT_THAT(warnings(table("mode: 'UNIFORM' lower: -1 upper: 1")), IsEmpty());
  EXPECT_THAT(warnings(table("mode: 'constant' value: 1")), IsEmpty());
  EXPECT_THAT(warnings(table("mode: 'normal' std_dev: 1 value: 1")),
              ElementsAre("dynamicemb.initializer_args.value of feature \"i\" has no effect: mode "
                          "is \"normal\""));
  EXPECT_THAT(warnings(table("lower: -1")), IsEmpty()) << "uniform";
  EXPECT_THAT(warnings(table("value: -1")),
              ElementsAre("dynamicemb.initializer_args.value of feature \"i\" has no effect: mode "
                          "is \"uniform\""));
}

}  // namespace
}  // namespace emblem
