#include "config/load/override.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PipelineConfig with(std::initializer_list<std::string> overrides) {
  PipelineConfig config = parse_pipeline(R"(
      data_config { label_fields: ["a", "b"] }
      feature_configs { id_feature { feature_name: "x" } }
      feature_configs { raw_feature { feature_name: "y" } }
      model_config { deepfm { deep { hidden_units: [4, 5] } } })",
                                         "x.config");
  for (const std::string& each : overrides) apply_override(each, &config);
  return config;
}

std::string assignment_error(const std::string& assignment) {
  try {
    with({assignment});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Override, SetsScalarsOfEveryType) {
  const auto config = with({
      "train_config.num_steps=7",
      "train_config.seed=18446744073709551615",
      "data_config.sample_ratio=0.25",
      "train_config.dense_optimizer.adam_optimizer.lr=1e-3",
      "data_config.shuffle=true",
      "data_config.with_header=False",
      "data_config.dataset_type=RawDataset",
      "model_dir=out/run 1",
      "data_config.max_bad_rows = 3",
  });
  EXPECT_EQ(config.train_config().num_steps(), 7u);
  EXPECT_EQ(config.train_config().seed(), ~uint64_t{0});
  EXPECT_EQ(config.data_config().sample_ratio(), 0.25);
  EXPECT_FLOAT_EQ(config.train_config().dense_optimizer().adam_optimizer().lr(), 1e-3f);
  EXPECT_TRUE(config.data_config().shuffle());
  EXPECT_FALSE(config.data_config().with_header());
  EXPECT_EQ(config.data_config().dataset_type(), config::RawDataset);
  EXPECT_EQ(config.model_dir(), "out/run 1");
  EXPECT_EQ(config.data_config().max_bad_rows(), 3u);
}

TEST(Override, TextMayHaveQuotesAndThenEscapes) {
  EXPECT_EQ(with({"data_config.delimiter=\"\\t\""}).data_config().delimiter(), "\t");
  EXPECT_EQ(with({"model_dir='a b'"}).model_dir(), "a b");
  EXPECT_EQ(with({"model_dir=a=b"}).model_dir(), "a=b");
  EXPECT_EQ(with({"model_dir="}).model_dir(), "");
  EXPECT_EQ(with({"train_input_path=a.csv,b.csv"}).train_input_path(), "a.csv,b.csv");
}

TEST(Override, TextMayHaveAnyCharacter) {
  EXPECT_EQ(with({R"(model_dir="a b\"c")"}).model_dir(), "a b\"c");
  EXPECT_EQ(with({R"(model_dir='a b"c')"}).model_dir(), "a b\"c");
  EXPECT_EQ(with({R"(model_dir=a b"c)"}).model_dir(), "a b\"c");
  EXPECT_EQ(with({R"(model_dir="a\\b")"}).model_dir(), "a\\b");
  EXPECT_EQ(with({R"(model_dir=a\b)"}).model_dir(), "a\\b");
  EXPECT_EQ(with({R"(model_dir="a\nb")"}).model_dir(), "a\nb");
  EXPECT_EQ(with({"model_dir=\"a\nb\""}).model_dir(), "a\nb");
  EXPECT_EQ(with({"model_dir=a\nb"}).model_dir(), "a\nb");
  EXPECT_THAT(assignment_error(R"(model_dir="a"b")"), HasSubstr("expected text in quotes"));
  EXPECT_THAT(assignment_error(R"(model_dir="a\x")"), HasSubstr("expected text in quotes"));
  EXPECT_THAT(assignment_error(R"(model_dir="a\")"), HasSubstr("expected text in quotes"));
}

TEST(Override, TheLastOneWins) { EXPECT_EQ(with({"model_dir=a", "model_dir=b"}).model_dir(), "b"); }

TEST(Override, ReachesIntoRepeatedFields) {
  const auto config =
      with({"feature_configs[0].id_feature.embedding_dim=16", "data_config.label_fields[1]=c",
            "model_config.deepfm.deep.hidden_units[0]=9"});
  EXPECT_EQ(config.feature_configs(0).id_feature().embedding_dim(), 16u);
  EXPECT_THAT(config.data_config().label_fields(), ElementsAre("a", "c"));
  EXPECT_THAT(config.model_config().deepfm().deep().hidden_units(), ElementsAre(9, 5));
}

TEST(Override, AddsToRepeatedFields) {
  const auto config =
      with({"data_config.label_fields[+]=c", "feature_configs[+].raw_feature.feature_name=z",
            "model_config.metrics[+]={ auc { thresholds: 0 } }"});
  EXPECT_THAT(config.data_config().label_fields(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(config.feature_configs(2).raw_feature().feature_name(), "z");
  EXPECT_EQ(config.model_config().metrics(0).auc().thresholds(), 0u);
}

TEST(Override, AListReplacesARepeatedField) {
  const auto config = with({"model_config.deepfm.deep.hidden_units=[64, 32,16]",
                            "data_config.label_fields=[x, \"y,z\", 'it\\'s']",
                            "model_config.metrics=[{auc {}}, {recall_at_k {top_k: 3}}]"});
  EXPECT_THAT(config.model_config().deepfm().deep().hidden_units(), ElementsAre(64, 32, 16));
  EXPECT_THAT(config.data_config().label_fields(), ElementsAre("x", "y,z", "it's"));
  EXPECT_EQ(config.model_config().metrics(1).recall_at_k().top_k(), 3u);
  EXPECT_THAT(with({"data_config.label_fields=[]"}).data_config().label_fields(), ElementsAre());
  EXPECT_THAT(with({"data_config.label_fields=only"}).data_config().label_fields(),
              ElementsAre("only"));
}

TEST(Override, AMessageInBracesReplacesTheWhole) {
  const auto config = with({"model_config.deepfm={final {hidden_units: 3}}"});
  EXPECT_FALSE(config.model_config().deepfm().has_deep());
  EXPECT_THAT(config.model_config().deepfm().final().hidden_units(), ElementsAre(3));
  EXPECT_TRUE(with({"feature_configs[1]={id_feature {}}"}).feature_configs(1).has_id_feature());
}

TEST(Override, AMemberOfAOneofReplacesTheOther) {
  EXPECT_TRUE(with({"model_config.dlrm={}"}).model_config().has_dlrm());
  const auto config = with({"model_config.dlrm.arch_with_sparse=false"});
  EXPECT_TRUE(config.model_config().has_dlrm());
  EXPECT_FALSE(config.model_config().has_deepfm());
}

TEST(Override, AnUnknownFieldNamesTheNearest) {
  EXPECT_EQ(assignment_error("train_config.num_step=3"),
            "--set train_config.num_step=3: train_config has no field \"num_step\"; did you mean "
            "\"num_steps\"?");
  EXPECT_EQ(assignment_error("trainconfig.num_steps=3"),
            "--set trainconfig.num_steps=3: the pipeline has no field \"trainconfig\"; did you "
            "mean \"train_config\"?");
  EXPECT_EQ(assignment_error("model_config.dlrm={fina {}}"),
            "--set model_config.dlrm={fina {}}: value:1:1: dlrm has no field \"fina\"; did you "
            "mean \"final\"?");
}

TEST(Override, AnIndexOutOfRangeSaysHowManyThereAre) {
  EXPECT_EQ(assignment_error("feature_configs[2].id_feature.embedding_dim=3"),
            "--set feature_configs[2].id_feature.embedding_dim=3: feature_configs[2] does not "
            "exist: there are 2 "
            "(counted from 0); use feature_configs[+] to add one");
  EXPECT_THAT(assignment_error("data_config.label_fields[7]=x"), HasSubstr("there are 2"));
  EXPECT_THAT(assignment_error("data_config.label_fields[-1]=x"), HasSubstr("has no valid index"));
  EXPECT_THAT(assignment_error("data_config.label_fields[x]=x"), HasSubstr("has no valid index"));
}

TEST(Override, AnIndexStandsWhereItBelongs) {
  EXPECT_THAT(assignment_error("feature_configs.id_feature.embedding_dim=3"),
              HasSubstr("feature_configs is a list; add an index: feature_configs[0]"));
  EXPECT_THAT(assignment_error("train_config[0].seed=3"),
              HasSubstr("train_config is not a list; write train_config without"));
  EXPECT_THAT(assignment_error("train_config.seed[0]=3"), HasSubstr("seed is not a list"));
  EXPECT_THAT(assignment_error("data_config.label_fields[]=3"),
              HasSubstr("expected NAME, NAME[INDEX] or NAME[+]"));
  EXPECT_THAT(assignment_error("data_config.label_fields[0=3"),
              HasSubstr("expected NAME, NAME[INDEX] or NAME[+]"));
}

TEST(Override, AValueOfTheWrongTypeSaysWhatWasExpected) {
  EXPECT_EQ(assignment_error("train_config.num_steps=many"),
            "--set train_config.num_steps=many: train_config.num_steps is many, expected a whole "
            "number from 0 to "
            "4294967295");
  EXPECT_THAT(assignment_error("train_config.num_steps="),
              HasSubstr("train_config.num_steps is empty, expected a whole number"));
  EXPECT_THAT(assignment_error("train_config.num_steps=3 4"),
              HasSubstr("is 3 4, expected a whole number"));
  EXPECT_THAT(assignment_error("data_config.shuffle=perhaps"), HasSubstr("expected true or false"));
  EXPECT_THAT(assignment_error("data_config.dataset_type=Csv"),
              HasSubstr("expected one of OdpsDataset"));
  EXPECT_THAT(assignment_error("train_config=3"),
              HasSubstr("train_config is 3, expected fields in braces { ... }"));
  EXPECT_THAT(assignment_error("train_config.seed.x=3"),
              HasSubstr("seed is a plain value and has no fields of its own"));
  EXPECT_THAT(assignment_error("model_config.deepfm.deep.hidden_units=[1, x]"),
              HasSubstr("hidden_units is x, expected"));
}

TEST(Override, WhatIsNotAnAssignmentIsAnError) {
  EXPECT_EQ(assignment_error("train_config.seed"),
            "--set train_config.seed: expected PATH=VALUE, such as train_config.seed=7");
  EXPECT_THAT(assignment_error("=3"), HasSubstr("expected PATH=VALUE"));
  EXPECT_THAT(assignment_error("train_config..seed=3"),
              HasSubstr("train_config has no field \"\""));
}

TEST(Override, APlaceholderIsReplacedInEveryText) {
  config::PipelineConfig config = parse_pipeline(
      R"(train_input_path: "odps://{PROJECT}/tables/{TABLE}" eval_input_path: "{PROJECT}/{PROJECT}"
         data_config { label_fields: "{PROJECT}_clk" label_fields: "buy" }
         feature_configs { id_feature { feature_name: "c{1..2}" embedding_name: "x" } })",
      "x", std::vector<std::string>{"{PROJECT}=mine"});
  EXPECT_EQ(config.train_input_path(), "odps://mine/tables/{TABLE}");
  EXPECT_EQ(config.eval_input_path(), "mine/mine");
  EXPECT_EQ(config.data_config().label_fields(0), "mine_clk");
  EXPECT_EQ(config.feature_configs_size(), 2) << "runs are not placeholders";
  apply_override("{TABLE}={TABLE}s", &config);
  EXPECT_EQ(config.train_input_path(), "odps://mine/tables/{TABLE}s");
}

}  // namespace
}  // namespace emblem
