#include "config/load/load.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;

PipelineConfig parse_text_of(const std::string& text) { return parse_pipeline(text, "x.config"); }

std::string load_error(const std::string& text) {
  try {
    parse_text_of(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(ParsePipeline, ReadsTheSyntaxOfTorchEasyRec) {
  // The spellings its users write: no colon before braces, tabs, single quotes, lists, repeated
  // scalars beside lists, True, escapes, comments, empty messages, missing required fields.
  const PipelineConfig config = parse_text_of(R"(
# a ranking model on exposure logs
train_input_path: 'data/train/*.csv'
eval_input_path: "data/eval/*.csv"
model_dir: "experiments/demo"
train_config {
    sparse_optimizer { adagrad_optimizer { lr: 0.001 } constant_learning_rate {} }
    dense_optimizer {
	adam_optimizer { lr:0.001 }
	constant_learning_rate {
	}
    }
    num_epochs: 1
    save_checkpoints_steps: 2000
    mixed_precision: "BF16"
}
eval_config {}
data_config {
    batch_size: 8192   # rows
    dataset_type: CsvDataset
    fg_mode: FG_NONE
    label_fields: ["clk", 'buy']
    label_fields: "pay"
    num_workers: 8
    with_header: True
    fg_encoded_multival_sep: "\x02"
}
feature_configs {
    id_feature { feature_name: "user_id" expression: "user:user_id" num_buckets: 1141730 embedding_dim: 16 }
}
feature_configs: {
    id_feature {
        feature_name: "tag" hash_bucket_size: 1000 embedding_dim: 16 weighted: true
        data_type: "FP16" embedding_name: "shared"
    }
}
feature_configs {
    raw_feature { feature_name: "price" expression: "item:price" boundaries: [1.1, 2.2, 5] embedding_dim: 16 }
}
feature_configs {
    raw_feature { feature_name: "age" normalizer: "method=log10,threshold=1e-10,default=-10" }
}
model_config {
    feature_groups { group_name: "deep" feature_names: "user_id" feature_names: ["tag", "price"] group_type: DEEP }
    feature_groups { group_name: "wide" feature_names: "user_id" group_type: WIDE }
    deepfm {
        deep { hidden_units: [512, 256, 128] dropout_ratio: 0.1 }
        final { hidden_units: 64 activation: 'nn.ReLU' use_bn: false }
    }
    num_class: 1
    metrics { auc {} }
    metrics { grouped_auc { grouping_key: "user_id" } }
    losses { binary_cross_entropy {} }
}
)");
  EXPECT_EQ(config.train_input_path(), "data/train/*.csv");
  EXPECT_FLOAT_EQ(config.train_config().dense_optimizer().adam_optimizer().lr(), 0.001f);
  EXPECT_THAT(config.data_config().label_fields(), ElementsAre("clk", "buy", "pay"));
  EXPECT_TRUE(config.data_config().with_header());
  EXPECT_EQ(config.data_config().fg_encoded_multival_sep(), "\x02");
  EXPECT_THAT(config.feature_configs(2).raw_feature().boundaries(), ElementsAre(1.1f, 2.2f, 5.0f));
  EXPECT_THAT(config.model_config().feature_groups(0).feature_names(),
              ElementsAre("user_id", "tag", "price"));
  EXPECT_THAT(config.model_config().deepfm().deep().hidden_units(), ElementsAre(512, 256, 128));
  EXPECT_TRUE(config.model_config().metrics(0).has_auc());
}

TEST(ParsePipeline, AnUnknownFieldNamesThePlaceAndTheNearestField) {
  EXPECT_EQ(load_error("train_config {\n  seed: 3\n    num_step: 100\n}\n"),
            "x.config:3:5: train_config has no field \"num_step\"; did you mean \"num_steps\"?");
  EXPECT_EQ(
      load_error("model_conf { }"),
      "x.config:1:1: the pipeline has no field \"model_conf\"; did you mean \"model_config\"?");
  EXPECT_EQ(
      load_error("model_config { dlrm { dense_mlp { hidden_unit: 3 } } }"),
      "x.config:1:35: dense_mlp has no field \"hidden_unit\"; did you mean \"hidden_units\"?");
}

TEST(ParsePipeline, AnUnknownFieldWithoutALikelyMeaningListsTheFields) {
  EXPECT_EQ(load_error("train_config { regularization { zzz: 1 } }"),
            "x.config:1:33: regularization has no field \"zzz\"; its fields are embedding_l2, "
            "embedding_l2_on_all_rows, weight_l2");
  EXPECT_EQ(load_error("model_config { metrics { log_loss { k: 1 } } }"),
            "x.config:1:37: log_loss has no field \"k\"; it has no fields at all");
}

TEST(ParsePipeline, ColumnsCountCharactersEvenBehindTabsAndComments) {
  EXPECT_EQ(load_error("# \"{\ntrain_config {\n\t\tnum_step: 1 # }\n}"),
            "x.config:3:3: train_config has no field \"num_step\"; did you mean \"num_steps\"?");
}

TEST(ParsePipeline, BracesInsideTextAndListsOfMessagesDoNotConfuseThePlace) {
  EXPECT_EQ(load_error("data_config { delimiter: '}' delimeter: ',' }"),
            "x.config:1:30: data_config has no field \"delimeter\"; did you mean \"delimiter\"?");
  EXPECT_EQ(
      load_error("feature_configs: [ { id_feature { } }, { id_featur { } } ]"),
      "x.config:1:42: feature_configs has no field \"id_featur\"; did you mean \"id_feature\"?");
  EXPECT_EQ(load_error("data_config < delimiter: '\\'}' shufle: true >"),
            "x.config:1:32: data_config has no field \"shufle\"; did you mean \"shuffle\"?");
}

TEST(ParsePipeline, AnUnknownNameOfAnEnumerationListsThem) {
  EXPECT_EQ(
      load_error("data_config {\n dataset_type: CriteoDataset\n}"),
      "x.config:2:16: data_config.dataset_type is CriteoDataset, expected one of OdpsDataset, "
      "ParquetDataset, CsvDataset, OdpsDatasetV1, KafkaDataset, CriteoTsvDataset, "
      "RawDataset, SplitDataset, LibfmDataset, OrcDataset, ArrowDataset; did you mean "
      "\"CriteoTsvDataset\"?");
  EXPECT_THAT(
      load_error("data_config { dataset_type: 77 }"),
      HasSubstr("x.config:1:29: data_config.dataset_type is 77, expected one of OdpsDataset"));
}

TEST(ParsePipeline, AValueOfTheWrongTypeSaysWhatWasExpected) {
  EXPECT_EQ(
      load_error("train_config { num_steps: abc }"),
      "x.config:1:27: train_config.num_steps is abc, expected a whole number from 0 to 4294967295");
  EXPECT_EQ(
      load_error("train_config { num_steps: -3 }"),
      "x.config:1:27: train_config.num_steps is -3, expected a whole number from 0 to 4294967295");
  EXPECT_EQ(
      load_error("train_config { num_steps: 1.5 }"),
      "x.config:1:27: train_config.num_steps is 1.5, expected a whole number from 0 to 4294967295");
  EXPECT_EQ(load_error("train_config { num_steps: 4294967296 }"),
            "x.config:1:27: train_config.num_steps is 4294967296, expected a whole number from 0 "
            "to 4294967295");
  EXPECT_EQ(load_error("train_config { num_steps: [1, 2] }"),
            "x.config:1:27: train_config.num_steps is \"[\", expected a whole number from 0 to "
            "4294967295");
  EXPECT_EQ(
      load_error("train_config { seed: 18446744073709551616 }"),
      "x.config:1:22: train_config.seed is 18446744073709551616, expected a whole number from 0 to "
      "18446744073709551615");
  EXPECT_EQ(load_error("data_config { shuffle: maybe }"),
            "x.config:1:24: data_config.shuffle is maybe, expected true or false");
  EXPECT_EQ(load_error("data_config { sample_ratio: half }"),
            "x.config:1:29: data_config.sample_ratio is half, expected a number");
  EXPECT_EQ(load_error("data_config { delimiter: 3 }"),
            "x.config:1:26: data_config.delimiter is 3, expected text in quotes");
  EXPECT_EQ(load_error("model_dir: 3"), "x.config:1:12: model_dir is 3, expected text in quotes");
  EXPECT_EQ(load_error("data_config { label_fields: ['a', 3] }"),
            "x.config:1:35: data_config.label_fields is 3, expected text in quotes");
  EXPECT_EQ(load_error("train_config: 3"),
            "x.config:1:15: train_config is 3, expected fields in braces { ... }");
  EXPECT_EQ(load_error("train_config = 3"),
            "x.config:1:14: train_config is \"=\", expected fields in braces { ... }");
}

TEST(ParsePipeline, TheLastOfSeveralValuesCountsWithAWarning) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(parse_pipeline("data_config { batch_size: 3 batch_size: 4 }", "x.config")
                .data_config()
                .batch_size(),
            4u);
  const PipelineConfig merged = parse_pipeline(
      "train_config { seed: 3 } model_config { dlrm {} deepfm {} } train_config { num_steps: 5 }",
      "x.config");
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(merged.train_config().seed(), 3u);
  EXPECT_EQ(merged.train_config().num_steps(), 5u);
  EXPECT_TRUE(merged.model_config().has_deepfm());
  EXPECT_THAT(warnings, HasSubstr("warning: x.config:1:29: data_config.batch_size is given twice; "
                                  "the last value counts"));
  EXPECT_THAT(warnings, HasSubstr("x.config:1:49: model_config.deepfm is given in addition to "
                                  "dlrm; of model the last one counts"));
  EXPECT_EQ(load_error("data_config { batch_size: 3 batch_size: 4 batch_sice: 5 }").substr(0, 14),
            "x.config:1:43:");
}

TEST(ParsePipeline, BracesThatDoNotMatchAreNamedWhereTheyStand) {
  EXPECT_EQ(load_error("data_config {}\ntrain_config {\n  num_steps: 3\n"),
            "x.config:2:14: the \"{\" of train_config is never closed; add \"}\"");
  EXPECT_EQ(load_error("train_config { } }"), "x.config:1:18: a \"}\" without \"{\"; remove it");
}

TEST(ParsePipeline, OtherMistakesKeepTheirPlace) {
  EXPECT_EQ(load_error("train_config { num_steps 3 }"),
            "x.config:1:26: expected \":\", found \"3\"");
  EXPECT_EQ(load_error("data_config { delimiter: \"abc }"),
            "x.config:1:32: unexpected end of string");
  EXPECT_EQ(load_error("$"), "x.config:1:1: expected identifier, got: $");
  EXPECT_EQ(load_error("train_config { num_steps:"),
            "x.config:1:26: expected integer, got: the end");
}

TEST(ParsePipeline, AnEmptyTextIsAnEmptyPipeline) {
  EXPECT_TRUE(MessageDifferencer::Equals(parse_text_of(""), PipelineConfig()));
  EXPECT_TRUE(MessageDifferencer::Equals(parse_text_of("# nothing\n"), PipelineConfig()));
}

TEST(ParsePipeline, NoPrefixOfAPipelineIsAnythingWorseThanAnError) {
  const std::string text =
      "data_config { label_fields: ['a', \"b\\\"\"] shuffle: true } # x\nmodel_config < dlrm { "
      "final: { "
      "hidden_units: [1, 2] } } > feature_configs: [ { raw_feature {} } ]";
  EXPECT_EQ(load_error(text), "no error");
  for (size_t size = 0; size < text.size(); ++size) {
    const std::string message = load_error(text.substr(0, size));
    EXPECT_THAT(message, testing::AnyOf("no error", testing::StartsWith("x.config:"))) << size;
  }
}

TEST(LoadPipeline, ReadsAFileAndAppliesOverridesBeforeRuns) {
  const TempFolder folder;
  const std::string path =
      folder.write("pipeline.config",
                   "feature_configs { id_feature { feature_name: 'c{1..3}' num_buckets: 5 } }");
  const std::vector<std::string> overrides = {"feature_configs[0].id_feature.embedding_dim=8",
                                              "train_config.seed=7", "train_config.seed=9"};
  const PipelineConfig config = load_pipeline(path, overrides);
  ASSERT_EQ(config.feature_configs_size(), 3);
  EXPECT_EQ(config.feature_configs(2).id_feature().embedding_dim(), 8u);
  EXPECT_EQ(config.train_config().seed(), 9u);
}

TEST(LoadPipeline, AMissingFileIsNamed) {
  EXPECT_THAT(
      [] { load_pipeline("no/such.config"); },
      testing::ThrowsMessage<Error>("cannot read no/such.config: No such file or directory"));
}

TEST(ToText, IsReadBackAsTheSamePipeline) {
  const std::vector<std::string> overrides = {
      "train_config.dense_optimizer.adam_optimizer.lr=0.1",
      "train_config.early_stopping.min_delta=1e-300",
      "data_config.delimiter=\"\\t\"",
      "data_config.label_fields=[\"a\\\"b\", 'c\\x02', größe]",
      "data_config.dataset_type=SplitDataset",
      "feature_configs=[{id_feature {feature_name: 'c{1..3}' num_buckets_each: [1, 2, "
      "18446744073709551615]}}]",
      "model_config.dcn_v2={deep {hidden_units: [3, 4] dropout_ratio: [0.3, 0.7]}}",
  };
  const PipelineConfig config = parse_pipeline("", "x.config", overrides);
  const std::string text = to_text(config);
  EXPECT_THAT(text, HasSubstr("hidden_units: [3, 4]"));
  EXPECT_THAT(text, HasSubstr("lr: 0.1\n"));
  EXPECT_THAT(text, HasSubstr("größe"));
  EXPECT_TRUE(MessageDifferencer::Equals(parse_text_of(text), config)) << text;
}

TEST(ParsePipeline, InputFieldsMayBeOneText) {
  const auto config = parse_pipeline(
      "data_config { input_fields_str: 'a:BIGINT; b : string ;c:ARRAY<INT>;d:ARRAY<ARRAY<FLOAT>>;"
      "e:MAP<STRING, BIGINT>;' }",
      "x");
  const auto& fields = config.data_config().input_fields();
  ASSERT_EQ(fields.size(), 5);
  EXPECT_EQ(fields[0].input_name(), "a");
  EXPECT_EQ(fields[0].input_type(), config::INT64);
  EXPECT_EQ(fields[1].input_name(), "b");
  EXPECT_EQ(fields[1].input_type(), config::STRING);
  EXPECT_EQ(fields[2].input_type(), config::ARRAY_INT32);
  EXPECT_EQ(fields[3].input_type(), config::ARRAY_ARRAY_FLOAT);
  EXPECT_EQ(fields[4].input_type(), config::MAP_STRING_INT64);
  EXPECT_FALSE(config.data_config().has_input_fields_str());
  EXPECT_EQ(load_error("data_config { input_fields_str: 'a:TINY' }"),
            "x.config: data_config.input_fields_str: type \"TINY\" of \"a\" is unknown; expected "
            "INT, BIGINT, FLOAT, DOUBLE, STRING, ARRAY<TYPE> or MAP<TYPE,TYPE>");
  EXPECT_THAT(load_error("data_config { input_fields_str: 'a' }"), HasSubstr("\"a\" has no type"));
  EXPECT_THAT(
      load_error("data_config { input_fields_str: 'a:INT' input_fields { input_name: 'b' } }"),
      HasSubstr("both input_fields and input_fields_str"));
}

}  // namespace
}  // namespace emblem
