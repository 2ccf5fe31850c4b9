
#include <gmock/gmock.h>

#include "config/load/load.h"
#include "config/load/run_names.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

PipelineConfig parse_run(const std::string& text) { return parse_pipeline(text, "x.config"); }

TEST(Runs, NumbersCountUp) {
  EXPECT_THAT(expand_run("c{1..3}"), ElementsAre("c1", "c2", "c3"));
  EXPECT_THAT(expand_run("{9..11}_x"), ElementsAre("9_x", "10_x", "11_x"));
  EXPECT_THAT(expand_run("d{08..10}"), ElementsAre("d08", "d09", "d10"));
  EXPECT_THAT(expand_run("c{0..0}"), ElementsAre("c0"));
  EXPECT_THAT(expand_run("plain"), ElementsAre("plain"));
  EXPECT_THAT(expand_run(""), ElementsAre(""));
}

TEST(Runs, WhatIsNotARunIsAnError) {
  for (const char* text : {"c{1-3}", "c{1..", "c1..3}", "c{..3}", "c{a..b}", "c{1..2}{1..2}", "c{}",
                           "c}{1..2", "c{-1..3}", "c{1...3}"}) {
    EXPECT_THAT([&] { expand_run(text); }, ThrowsMessage<Error>(HasSubstr("is not a run of names")))
        << text;
  }
  EXPECT_THAT(
      [] { expand_run("c{3..1}"); },
      ThrowsMessage<Error>(
          "\"c{3..1}\" is not a run of names: it counts down from 3 to 1; write it like c{1..26}"));
  EXPECT_THAT([] { expand_run("c{1..99999999}"); },
              ThrowsMessage<Error>(HasSubstr("it is longer than 100000")));
}

TEST(Runs, AreCountedBeforeTheyAreMade) {
  EXPECT_EQ(names_of_runs("a{1..3} b{7..7} c{3..1} d{x..2} e{1..} f"), 4u);
  EXPECT_EQ(names_of_runs("a{0..9223372036854775807}"), size_t{kLongestRun});
}

TEST(Runs, AllTogetherAreLimited) {
  const std::string many =
      R"(feature_configs { raw_feature { feature_name: "x{1..60000}" default_value: "TEXT" } })";
  EXPECT_THAT([&] { parse_run(many + many); },
              ThrowsMessage<Error>(HasSubstr("stand for 120000 names, expected at most 100000")));
  std::string long_text = many;
  long_text.replace(long_text.find("TEXT"), 4, std::string(2000, '1'));
  EXPECT_THAT([&] { parse_run(long_text); },
              ThrowsMessage<Error>(HasSubstr("bytes, expected at most 67108864 in all")));
  EXPECT_THAT([] { expand_run("x{1..60000}" + std::string(2000, 'x')); },
              ThrowsMessage<Error>(HasSubstr("its names have more than 67108864 bytes")));
  std::string group = R"(model_config { feature_groups { group_name: "a")";
  for (int i = 0; i < 20; ++i) group += R"( feature_names: "x{1..60000}")";
  EXPECT_THAT([&] { parse_run(group + " } }"); },
              ThrowsMessage<Error>(HasSubstr("expected at most 100000 in all")));
}

TEST(Runs, AreCountedWithoutMakingThem) {
  EXPECT_EQ(names_of_runs("a { b: \"c{1..26}\" d: \"{3..3}\" }"), 27u);
  EXPECT_EQ(names_of_runs("{1..99999999999} {1..} {..} {2..1} {"), 100000u);
  EXPECT_EQ(names_of_runs(""), 0u);
}

TEST(Runs, AFeatureBecomesOneForEachNameWithItsOwnColumnTableAndRows) {
  const auto config = parse_run(R"(
      feature_configs { id_feature { feature_name: "c{1..3}" expression: "item:C{14..16}" embedding_name: "t{1..3}"
                                     embedding_dim: 8 num_buckets_each: [10, 20, 30] } }
      feature_configs { raw_feature { feature_name: "i{1..2}" expression: "I{1..2}" normalizer: "method=log1p" } }
      feature_configs { raw_feature { feature_name: "plain" } })");
  ASSERT_EQ(config.feature_configs_size(), 6);
  const auto& second = config.feature_configs(1).id_feature();
  EXPECT_EQ(second.feature_name(), "c2");
  EXPECT_EQ(second.expression(), "item:C15");
  EXPECT_EQ(second.embedding_name(), "t2");
  EXPECT_EQ(second.num_buckets(), 20u);
  EXPECT_EQ(second.num_buckets_each_size(), 0);
  EXPECT_EQ(second.embedding_dim(), 8u);
  EXPECT_EQ(config.feature_configs(4).raw_feature().feature_name(), "i2");
  EXPECT_EQ(config.feature_configs(4).raw_feature().expression(), "I2");
  EXPECT_EQ(config.feature_configs(4).raw_feature().normalizer(), "method=log1p");
  EXPECT_EQ(config.feature_configs(5).raw_feature().feature_name(), "plain");
  EXPECT_FALSE(config.feature_configs(5).raw_feature().has_expression());
}

TEST(Runs, AreForFeaturesOfEveryKindAndForSequences) {
  const auto config = parse_run(R"(
      feature_configs { combo_feature { feature_name: "x{1..2}" expression: "user:u"
                                        expression: "item:i{1..2}" } }
      feature_configs { lookup_feature { feature_name: "l{1..2}" map: "user:m{1..2}" key: "item:k" } }
      feature_configs { sequence_feature { sequence_name: "s"
        features { id_feature { feature_name: "a{1..3}" expression: "item:a{1..3}"
                                num_buckets_each: [4, 5, 6] } } } }
      model_config { feature_groups { group_name: "g"
        sequence_groups { feature_names: "s__a{1..3}" } } })");
  ASSERT_EQ(config.feature_configs_size(), 5);
  EXPECT_EQ(config.feature_configs(1).combo_feature().expression(0), "user:u");
  EXPECT_EQ(config.feature_configs(1).combo_feature().expression(1), "item:i2");
  EXPECT_EQ(config.feature_configs(3).lookup_feature().map(), "user:m2");
  const auto& sequence = config.feature_configs(4).sequence_feature();
  ASSERT_EQ(sequence.features_size(), 3);
  EXPECT_EQ(sequence.features(2).id_feature().feature_name(), "a3");
  EXPECT_EQ(sequence.features(2).id_feature().num_buckets(), 6u);
  EXPECT_THAT(config.model_config().feature_groups(0).sequence_groups(0).feature_names(),
              ElementsAre("s__a1", "s__a2", "s__a3"));
}

TEST(Runs, ATableNameWithoutBracesIsShared) {
  const auto config = parse_run(
      "feature_configs { id_feature { feature_name: 'c{1..2}' embedding_name: 'all' num_buckets: 5 "
      "} }");
  EXPECT_EQ(config.feature_configs(0).id_feature().embedding_name(), "all");
  EXPECT_EQ(config.feature_configs(1).id_feature().embedding_name(), "all");
  EXPECT_EQ(config.feature_configs(1).id_feature().num_buckets(), 5u);
}

TEST(Runs, ExpandInPlaceInGroupsAndInputFields) {
  const auto config = parse_run(R"(
      data_config { input_fields { input_name: "label" input_type: FLOAT }
                    input_fields { input_name: "c{1..2}" input_type: STRING } }
      model_config { feature_groups { group_name: "g" feature_names: ["a", "c{1..2}", "b"] } })");
  EXPECT_THAT(config.model_config().feature_groups(0).feature_names(),
              ElementsAre("a", "c1", "c2", "b"));
  ASSERT_EQ(config.data_config().input_fields_size(), 3);
  EXPECT_EQ(config.data_config().input_fields(2).input_name(), "c2");
  EXPECT_EQ(config.data_config().input_fields(2).input_type(), config::STRING);
}

TEST(Runs, LengthsMustAgree) {
  EXPECT_THAT(
      [] {
        parse_run(
            "feature_configs { id_feature { feature_name: 'c{1..3}' expression: 'C{1..2}' } }");
      },
      ThrowsMessage<Error>(
          "x.config: features \"c{1..3}\": expression \"C{1..2}\" stands for 2 names, "
          "expected 3, one for each feature"));
  EXPECT_THAT(
      [] {
        parse_run(
            "feature_configs { raw_feature { feature_name: 'c{1..3}' embedding_name: 't{1..9}' } "
            "}");
      },
      ThrowsMessage<Error>(HasSubstr("embedding_name \"t{1..9}\" stands for 9 names, expected 3")));
  EXPECT_THAT(
      [] {
        parse_run(
            "feature_configs { id_feature { feature_name: 'c{1..3}' num_buckets_each: [1, 2] } }");
      },
      ThrowsMessage<Error>(HasSubstr("num_buckets_each has 2 numbers, expected 3")));
  EXPECT_THAT(
      [] {
        parse_run("feature_configs { id_feature { feature_name: 'c' expression: 'C{1..2}' } }");
      },
      ThrowsMessage<Error>(HasSubstr("stands for 2 names, expected 1")));
  EXPECT_THAT(
      [] {
        parse_run(
            "feature_configs { id_feature { feature_name: 'c{1..1}' num_buckets: 3 "
            "num_buckets_each: [1] } }");
      },
      ThrowsMessage<Error>(HasSubstr("num_buckets and num_buckets_each are both given")));
}

TEST(Runs, ExpandingTwiceChangesNothing) {
  auto config =
      parse_run("feature_configs { id_feature { feature_name: 'c{1..3}' num_buckets: 1 } }");
  const std::string once = config.DebugString();
  expand_runs(&config);
  EXPECT_EQ(config.DebugString(), once);
}

}  // namespace
}  // namespace emblem
