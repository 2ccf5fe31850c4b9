#include "model/check/check.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;

constexpr const char* kGoodPipeline = R"(
    train_input_path: "train" eval_input_path: "eval" model_dir: "out"
    train_config { num_epochs: 1 }
    data_config { dataset_type: CriteoTsvDataset batch_size: 16 }
    feature_configs { raw_feature { feature_name: "i{1..2}" } }
    feature_configs { id_feature { feature_name: "c{1..3}" num_buckets: 10 embedding_dim: 4 } }
    model_config {
      feature_groups { group_name: "dense" feature_names: "i{1..2}" }
      feature_groups { group_name: "sparse" feature_names: "c{1..3}" }
      dlrm { dense_mlp { hidden_units: [8, 4] } final { hidden_units: 8 } }
    })";

// What check_pipeline says about the good pipeline with some changes.
std::string problem_of(const std::vector<std::string>& changes) {
  const PipelineConfig config = parse_pipeline(kGoodPipeline, "good", changes);
  try {
    check_pipeline(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "fine";
}

TEST(CheckPipeline, AcceptsAGoodPipeline) {
  EXPECT_EQ(problem_of({}), "fine");
  EXPECT_EQ(problem_of({"train_config={num_steps: 10 eval_steps: 5 early_stopping {}}"}), "fine");
  EXPECT_EQ(problem_of({"eval_input_path="}), "fine");
}

TEST(CheckPipeline, TrainingHasExactlyOneLength) {
  EXPECT_EQ(problem_of({"train_config={}"}),
            "train_config does not say how long to train; give num_steps or num_epochs");
  EXPECT_EQ(problem_of({"train_config.num_steps=3"}),
            "train_config has both num_steps and num_epochs; keep one of them");
  EXPECT_EQ(problem_of({"train_config.num_epochs=0"}),
            "train_config.num_epochs is 0, expected at least 1");
  EXPECT_EQ(problem_of({"train_config={num_steps: 0}"}),
            "train_config.num_steps is 0, expected at least 1");
}

TEST(CheckPipeline, AStreamHasNoEndAndNoEpochs) {
  const std::string topic = "train_input_path=kafka://b:9092,c:9092/clicks?until=now";
  const std::string kafka = "data_config={dataset_type: KafkaDataset label_fields: 'label'}";
  EXPECT_EQ(problem_of({topic, kafka, "train_config={}"}), "fine");
  EXPECT_EQ(problem_of({topic, kafka, "train_config={num_epochs: 1}"}), "fine");
  EXPECT_EQ(problem_of({topic, kafka, "train_config={num_steps: 5}"}), "fine");
  EXPECT_EQ(problem_of({topic, kafka, "train_config={save_checkpoints_timestamp_interval: 60}"}),
            "fine");
  EXPECT_EQ(problem_of({topic, kafka, "train_config={num_epochs: 2}"}),
            "train_config.num_epochs is 2, but a stream has no epochs; remove it");
  EXPECT_THAT(problem_of({topic, kafka, "data_config.holdout_ratio=0.1", "eval_input_path="}),
              HasSubstr("holdout_ratio is incompatible with a stream"));
  EXPECT_THAT(problem_of({topic}), HasSubstr("train_input_path is a topic, but "
                                             "data_config.dataset_type is CriteoTsvDataset"));
}

TEST(CheckPipeline, EvaluationsHaveOneRhythmAndAnInput) {
  EXPECT_EQ(problem_of({"train_config.eval_steps=3", "train_config.eval_epochs=1"}),
            "train_config has both eval_steps and eval_epochs; keep one of them");
  EXPECT_THAT(problem_of({"train_config.eval_steps=0"}), HasSubstr("eval_steps is 0"));
  EXPECT_THAT(problem_of({"train_config.eval_epochs=0"}), HasSubstr("eval_epochs is 0"));
  EXPECT_EQ(problem_of({"eval_input_path=", "train_config.eval_steps=3"}),
            "train_config asks for evaluations, but there is nothing to evaluate on; set "
            "eval_input_path or data_config.holdout_ratio");
  EXPECT_EQ(problem_of({"eval_input_path=", "train_config.early_stopping={}"}),
            "train_config.early_stopping needs evaluations, but there is nothing to evaluate on; "
            "set eval_input_path or data_config.holdout_ratio");
  EXPECT_EQ(
      problem_of(
          {"eval_input_path=", "train_config.dense_optimizer.reduce_on_plateau_learning_rate={}"}),
      "train_config.reduce_on_plateau_learning_rate needs evaluations, but there is nothing to "
      "evaluate on; set eval_input_path or data_config.holdout_ratio");
}

TEST(CheckPipeline, AHoldoutTakesThePlaceOfEvalInputPath) {
  const std::string holdout = "data_config.holdout_ratio=0.1";
  const std::string stopping = "train_config.early_stopping={}";
  EXPECT_EQ(problem_of({"eval_input_path=", holdout, stopping}), "fine");
  EXPECT_EQ(problem_of({"eval_input_path=./train", holdout, stopping}), "fine");
  EXPECT_EQ(
      problem_of({holdout}),
      "data_config.holdout_ratio is 0.1, but eval_input_path is \"eval\"; remove one of them: "
      "the rows held out of train_input_path are evaluated on (--set "
      "data_config.holdout_ratio=0 evaluates on eval_input_path)");
  for (const char* ratio : {"-0.1", "1", "nan"}) {
    EXPECT_THAT(problem_of({"eval_input_path=", std::string("data_config.holdout_ratio=") + ratio}),
                HasSubstr("expected at least 0 and less than 1"))
        << ratio;
  }
}

TEST(CheckPipeline, TrainingSettingsAreInRange) {
  EXPECT_EQ(problem_of({"train_config.mixed_precision=FP8"}),
            "train_config.mixed_precision is \"FP8\", expected FP32, FP16 or BF16 (or INT8 in "
            "exported models)");
  EXPECT_EQ(problem_of({"train_config.dedup_per_host=on"}),
            "train_config.dedup_per_host is \"on\", expected AUTO, ON or OFF");
  EXPECT_EQ(problem_of({"train_config.exchange_precision=FP8"}),
            "train_config.exchange_precision is \"FP8\", expected FP32, FP16 or BF16");
  for (const char* other : {"train_config.deterministic=true", "train_config.logical_shards=2"})
    EXPECT_EQ(
        problem_of({"train_config.exchange_precision=BF16", other}),
        "train_config.exchange_precision is \"BF16\", with which results depend on the number "
        "of ranks; remove deterministic and logical_shards, or choose FP32");
  EXPECT_EQ(problem_of({"train_config.grad_scaler={backoff_factor: 2}"}),
            "train_config.grad_scaler has init_scale 65536, growth_factor 2 and backoff_factor 2, "
            "expected more than 0, at least 1, and between 0 and 1");
  EXPECT_EQ(problem_of({"train_config.gradient_accumulation_steps=0"}),
            "train_config.gradient_accumulation_steps is 0, expected at least 1");
  EXPECT_THAT(problem_of({"train_config.grad_clipping.enable_global_grad_clip=true",
                          "train_config.gradient_accumulation_steps=2"}),
              HasSubstr("enable_global_grad_clip needs all gradients of a step"));
  EXPECT_EQ(problem_of({"train_config.grad_clipping.clipping_type=l2"}),
            "train_config.grad_clipping.clipping_type is \"l2\", expected none, norm or value");
  EXPECT_EQ(problem_of({"train_config.grad_clipping={clipping_type: 'norm' max_gradient: 0}"}),
            "train_config.grad_clipping.max_gradient is 0, expected more than 0");
  EXPECT_EQ(problem_of({"train_config.grad_clipping={clipping_type: 'norm' norm_type: 1}"}),
            "train_config.grad_clipping.norm_type is 1, expected 2: gradients are clipped by their "
            "Euclidean norm");
  EXPECT_EQ(problem_of({"train_config.regularization.embedding_l2=-1"}),
            "train_config.regularization has embedding_l2 -1, expected at least 0");
  EXPECT_EQ(problem_of({"train_config.regularization.weight_l2=-2"}),
            "train_config.regularization has weight_l2 -2, expected at least 0");
}

TEST(CheckPipeline, DataSettingsAreInRange) {
  EXPECT_EQ(problem_of({"data_config.batch_size=0"}),
            "data_config.batch_size is 0, expected at least 1");
  EXPECT_THAT(problem_of({"data_config.eval_batch_size=0"}), HasSubstr("eval_batch_size is 0"));
  EXPECT_THAT(problem_of({"data_config.num_workers=0"}), HasSubstr("num_workers is 0"));
  EXPECT_THAT(problem_of({"data_config.prefetch_batches=0"}), HasSubstr("prefetch_batches is 0"));
  EXPECT_THAT(problem_of({"data_config.shuffle=true", "data_config.shuffle_buffer_size=0"}),
              HasSubstr("shuffle_buffer_size is 0 with shuffle: true"));
  EXPECT_EQ(problem_of({"data_config.shuffle_buffer_size=0"}), "fine");
  for (const char* ratio : {"0", "-0.5", "1.5", "nan"}) {
    EXPECT_THAT(problem_of({std::string("data_config.sample_ratio=") + ratio}),
                HasSubstr("expected more than 0 and at most 1"))
        << ratio;
  }
  EXPECT_THAT(problem_of({"data_config.delimiter=ab"}),
              HasSubstr("delimiter is \"ab\", expected one character"));
}

TEST(CheckPipeline, OnlyFormatsWithoutALabelOfTheirOwnNeedLabelFields) {
  EXPECT_EQ(problem_of({"data_config.dataset_type=CsvDataset"}),
            "data_config.label_fields is empty; name the column that holds the label");
  EXPECT_EQ(problem_of({"data_config.dataset_type=CsvDataset", "data_config.label_fields=click"}),
            "fine");
  EXPECT_EQ(problem_of({"data_config.dataset_type=LibfmDataset"}), "fine");
}

TEST(CheckPipeline, AModelAndItsGroupsAreThere) {
  EXPECT_EQ(problem_of({"model_config={feature_groups {group_name: 'g' feature_names: 'c1'}}"}),
            "model_config names no model; give one of dlrm, deepfm, multi_tower, multi_tower_din, "
            "mask_net, wide_and_deep, dcn_v1, dcn_v2, xdeepfm, wukong, mmoe, dbmtl, ple, pepnet, "
            "dssm, dssm_v2, dat, mind, tdm, rocket_launching, lr, fm, dnn");
  EXPECT_EQ(problem_of({"model_config={dnn {}}"}), "model_config has no feature_groups");
  EXPECT_EQ(problem_of({"feature_configs=[]"}), "the pipeline has no feature_configs");
  EXPECT_EQ(problem_of({"model_config.feature_groups[0].group_name="}),
            "a feature group of model_config has no group_name");
  EXPECT_EQ(problem_of({"model_config.feature_groups[0].group_name=sparse"}),
            "two feature groups are called \"sparse\"");
  EXPECT_EQ(problem_of({"model_config.feature_groups[0].feature_names=[]"}),
            "feature group \"dense\" has no feature_names");
}

TEST(CheckPipeline, GroupsNameFeaturesThatExistOnce) {
  EXPECT_EQ(problem_of({"model_config.feature_groups[1].feature_names=[c1, cc2]"}),
            "feature group \"sparse\": there is no feature \"cc2\"; did you mean \"c2\"?");
  EXPECT_EQ(problem_of({"model_config.feature_groups[1].feature_names=[c1, c1]"}),
            "feature group \"sparse\" names \"c1\" twice");
}

TEST(CheckPipeline, VectorsHaveADimension) {
  const std::string without =
      "feature_configs[1].id_feature={feature_name: 'c{1..3}' num_buckets: 10}";
  EXPECT_EQ(problem_of({without}), "feature group \"sparse\": feature \"c1\" has no embedding_dim");
  EXPECT_EQ(problem_of({without, "model_config.feature_groups[1].group_type=WIDE"}), "fine");
  EXPECT_EQ(
      problem_of({without, "model_config.feature_groups[1].group_name=wide", "model_config.lr={}"}),
      "fine");
}

TEST(CheckPipeline, ASharedTableIsTheSameForAll) {
  const auto two = [](const char* first, const char* second) {
    return problem_of({std::string("feature_configs=[{raw_feature {feature_name: 'i{1..2}'}}, "
                                   "{id_feature {feature_name: 'c1' "
                                   "embedding_name: 't' ") +
                           first + "}}, {id_feature {feature_name: 'c2' embedding_name: 't' " +
                           second + "}}]",
                       "model_config.feature_groups[1].feature_names=[c1, c2]"});
  };
  EXPECT_EQ(two("num_buckets: 3 embedding_dim: 4", "num_buckets: 3 embedding_dim: 4"), "fine");
  EXPECT_EQ(two("num_buckets: 3 embedding_dim: 4", "num_buckets: 3 embedding_dim: 8"),
            "features \"c1\" and \"c2\" share table \"t\", but have embedding_dim 4 and 8; make "
            "them equal or give "
            "them their own embedding_name");
  EXPECT_EQ(two("num_buckets: 3 embedding_dim: 4", "hash_bucket_size: 5 embedding_dim: 4"),
            "features \"c1\" and \"c2\" share table \"t\", but have num_buckets 3 and "
            "hash_bucket_size 5; make them "
            "equal or give them their own embedding_name");
  EXPECT_EQ(two("num_buckets: 3 embedding_dim: 4", "hash_bucket_size: 3 embedding_dim: 4"), "fine");
}

TEST(CheckPipeline, FeaturesThatShareATableAgreeOnEverySettingOfIt) {
  const auto two = [](const std::string& first, const std::string& second) {
    const auto feature = [](const char* name, const std::string& settings) {
      return std::string("{id_feature {feature_name: '") + name +
             "' embedding_name: 't' embedding_dim: 4 " + settings + "}}";
    };
    return problem_of({"feature_configs=[{raw_feature {feature_name: 'i{1..2}'}}, " +
                           feature("c1", first) + ", " + feature("c2", second) + "]",
                       "model_config.feature_groups[1].feature_names=[c1, c2]"});
  };
  const auto difference = [](const std::string& what) {
    return "features \"c1\" and \"c2\" share table \"t\", but have " + what +
           "; make them equal or give them their own embedding_name";
  };
  const std::string rows = "num_buckets: 3 ";
  EXPECT_EQ(two(rows + "trainable: true", rows), "fine") << "a default is a value like any other";
  EXPECT_EQ(two(rows + "pooling: 'mean' default_value: '1'", rows), "fine")
      << "not settings of the table";
  EXPECT_EQ(two(rows + "init_fn: 'nn.init.zeros_'", rows),
            difference("init_fn \"nn.init.zeros_\" and unset"));
  EXPECT_EQ(two(rows, rows + "trainable: false"), difference("trainable true and false"));
  EXPECT_EQ(two(rows + "data_type: 'FP16'", rows + "data_type: 'BF16'"),
            difference("data_type \"FP16\" and \"BF16\""));
  EXPECT_EQ(two("dynamicemb { max_capacity: 5 }", "dynamicemb { max_capacity: 6 }"),
            difference("dynamicemb.max_capacity 5 and 6"));
  EXPECT_EQ(
      two("dynamicemb { max_capacity: 5 }", "dynamicemb { max_capacity: 5 score_strategy: 'LFU' }"),
      difference("dynamicemb.score_strategy \"STEP\" and \"LFU\""));
  EXPECT_EQ(two("dynamicemb { initializer_args { mode: 'uniform' upper: 1 } }",
                "dynamicemb { initializer_args { mode: 'uniform' upper: 2 } }"),
            difference("dynamicemb.initializer_args.upper 1 and 2"));
  EXPECT_EQ(two("dynamicemb { frequency_admission_strategy { threshold: 3 } }", "dynamicemb {}"),
            difference("dynamicemb.frequency_admission_strategy.threshold 3 and unset"));
}

TEST(CheckPipeline, WideTablesHaveNamesOfTheirOwn) {
  EXPECT_EQ(problem_of({"feature_configs[1].id_feature={feature_name: 'c{1..2}' num_buckets: 3 "
                        "embedding_dim: 4}",
                        "feature_configs[+].id_feature={feature_name: 'c3' embedding_name: "
                        "'c1_emb_wide' num_buckets: 3 "
                        "embedding_dim: 4}",
                        "model_config.feature_groups[+]={group_name: 'wide' group_type: WIDE "
                        "feature_names: 'c1'}"}),
            "the wide table of feature \"c1\" is called \"c1_emb_wide\", as is the table of "
            "feature \"c3\"; "
            "give one of them another embedding_name");
}

TEST(CheckPipeline, NumbersStandWhereTheModelReadsThem) {
  EXPECT_EQ(problem_of({"model_config.feature_groups[1].feature_names=[c1, i2]"}),
            "feature \"i2\" is numeric, but dlrm reads only embeddings of group \"sparse\"; give "
            "it boundaries "
            "and an embedding_dim, or move it to group \"dense\"");
  const std::string wide =
      "model_config.feature_groups[0]={group_name: 'wide' group_type: WIDE feature_names: 'i1'}";
  const auto group = [](const char* name) {
    return std::string("model_config.feature_groups[1]={group_name: '") + name +
           "' feature_names: 'c1' feature_names: 'i1'}";
  };
  EXPECT_THAT(problem_of({wide, group("deep"), "model_config.fm={}"}),
              HasSubstr("\"i1\" is numeric, but fm reads only embeddings of group \"deep\""));
  EXPECT_THAT(problem_of({wide, group("fm"), "model_config.fm={}"}),
              HasSubstr("move it to group \"wide\""));
  EXPECT_EQ(problem_of({wide, group("deep"), "model_config.deepfm={}"}), "fine")
      << "its MLP reads them";
  EXPECT_THAT(problem_of({wide, group("fm"), "model_config.deepfm={}"}),
              HasSubstr("move it to group \"deep\""));
  EXPECT_EQ(problem_of({wide, group("deep"), "model_config.wide_and_deep={}"}), "fine");
  EXPECT_EQ(
      problem_of({"semantics_version=1", "model_config.feature_groups[1].feature_names=[c1, i2]"}),
      "fine")
      << "models that were trained so are served";
}

TEST(CheckPipeline, ColumnsAreNamedOnce) {
  EXPECT_EQ(problem_of({"data_config.label_fields=[a, b]"}), "fine");
  EXPECT_EQ(problem_of({"data_config.label_fields=[a, b, a]"}),
            "data_config.label_fields[0] and data_config.label_fields[2] are both \"a\"; remove or "
            "rename one of them");
  EXPECT_EQ(
      problem_of(
          {"data_config.input_fields=[{input_name: 'x'}, {input_name: 'y'}, {input_name: 'y'}]"}),
      "data_config.input_fields[1] and data_config.input_fields[2] are both \"y\"; remove or "
      "rename one of them");
  EXPECT_THAT(problem_of({"data_config.input_fields=[{input_type: INT64}]"}),
              HasSubstr("input_fields[0] has no name"));
}

TEST(CheckPipeline, MissingTextsNeedColumnsWithNames) {
  EXPECT_EQ(problem_of({"data_config.label_positive=2"}), "fine") << "for every format";
  EXPECT_THAT(problem_of({"data_config.na_strings=[NA]"}),
              HasSubstr("na_strings is for CsvDataset, columnar files and streams, dataset_type is "
                        "CriteoTsvDataset"));
  EXPECT_EQ(problem_of({"data_config.dataset_type=ParquetDataset", "data_config.na_strings=[-999]",
                        "data_config.label_fields=[label]"}),
            "fine");
}

std::vector<std::string> warnings(const std::vector<std::string>& changes) {
  return pipeline_warnings(parse_pipeline(kGoodPipeline, "good", changes));
}

TEST(PipelineWarnings, AStreamIsNotShuffled) {
  EXPECT_THAT(warnings({"train_input_path=kafka://b/t", "data_config.shuffle=true"}),
              testing::Contains(HasSubstr("shuffle has no effect on a stream")));
}

TEST(PipelineWarnings, ThereAreNoneOfAGoodPipeline) {
  EXPECT_THAT(warnings({}), testing::IsEmpty());
}

TEST(PipelineWarnings, UnusedFeaturesGroupsAndLabelsAreNamed) {
  EXPECT_THAT(
      warnings({"model_config.feature_groups[1].feature_names=[c1]"}),
      testing::ElementsAre(
          "features \"c2\", \"c3\" are in no feature group and not used by the model; add them "
          "to feature_names of a group, or remove them"));
  EXPECT_THAT(warnings({"model_config.feature_groups[1].feature_names=[c1, c2]",
                        "model_config.metrics=[{grouped_auc {grouping_key: 'c3'}}]"}),
              testing::IsEmpty())
      << "metrics use features, too";
  EXPECT_THAT(
      warnings({"model_config.feature_groups[+]={group_name: 'other' feature_names: 'c1'}"}),
      testing::ElementsAre("the model does not read feature group \"other\""));
  EXPECT_THAT(warnings({"data_config.label_fields=[clk, buy]"}),
              testing::ElementsAre(
                  "data_config.label_fields names 2 columns; the model learns the first, \"clk\""));
  EXPECT_THAT(warnings({"data_config.sample_weight_fields=[a, b]"}),
              testing::ElementsAre("data_config.sample_weight_fields names 2 columns; the model "
                                   "reads the first, \"a\""));
}

TEST(PipelineWarnings, DividedTablesAreMentioned) {
  EXPECT_THAT(warnings({"train_config.divide_tables=1000"}),
              testing::ElementsAre(HasSubstr("divide_tables is 1000: tables have that part")));
  EXPECT_EQ(problem_of({"train_config.divide_tables=0"}),
            "train_config.divide_tables is 0, expected at least 1");
}

std::string with_zch(const std::string& settings) {
  return "feature_configs[1].id_feature={feature_name: 'c{1..3}' embedding_dim: 4 zch { " +
         settings + " }}";
}

TEST(CheckPipeline, ZchEvictsByFrequencyOrAgeAlone) {
  for (const char* policy : {"", "lfu {}", "lru {}", "lru { decay_exponent: 2 }"})
    EXPECT_EQ(problem_of({with_zch(std::string("zch_size: 10 ") + policy)}), "fine") << policy;
  EXPECT_THAT(problem_of({with_zch("lfu {}")}),
              HasSubstr("zch.zch_size is 0, expected at least 1"));
  EXPECT_THAT(problem_of({with_zch("zch_size: 10 distance_lfu {}")}),
              HasSubstr("zch.distance_lfu is not supported yet; use lfu or lru"));
  EXPECT_THAT(problem_of({with_zch("zch_size: 10 threshold_filtering_func: 'lambda x: x'")}),
              HasSubstr("zch.threshold_filtering_func is not supported yet; use dynamicemb"));
  EXPECT_THAT(problem_of({with_zch("zch_size: 10 lru { decay_exponent: 0 }")}),
              HasSubstr("zch.lru.decay_exponent is 0, expected more than 0"));
}

TEST(CheckPipeline, DynamicTablesStartEmpty) {
  EXPECT_THAT(problem_of({"feature_configs[1].id_feature={feature_name: 'c{1..3}' embedding_dim: 4 "
                          "dynamicemb { max_capacity: 10 init_table: 'x' }}"}),
              HasSubstr("dynamicemb.init_table is not supported yet; continue from"));
}

TEST(CheckPipeline, DynamicTablesHaveRoom) {
  EXPECT_THAT(problem_of({"feature_configs[1].id_feature={feature_name: 'c{1..3}' embedding_dim: 4 "
                          "dynamicemb { max_capacity: 0 }}"}),
              HasSubstr("dynamicemb.max_capacity is 0, expected at least 1; without it"));
}

TEST(PipelineWarnings, AnExporterIsNotUsed) {
  EXPECT_THAT(
      warnings({"export_config.exporter_type=best"}),
      testing::ElementsAre(HasSubstr("export_config.exporter_type \"best\" has no effect")));
  EXPECT_THAT(warnings({"export_config.exporter_type=latest"}), testing::IsEmpty());
}

TEST(PipelineWarnings, SettingsWithoutEffectAreNamed) {
  EXPECT_THAT(warnings({"data_config.pin_memory=false", "train_config.is_profiling=true"}),
              testing::UnorderedElementsAre(
                  "no effect: data_config.pin_memory (memory is pinned where a GPU trains)",
                  "no effect: train_config.is_profiling (use emblem train --profile)"));
  EXPECT_THAT(warnings({"data_config.pin_memory=true", "train_config.is_profiling=false"}),
              testing::IsEmpty());  // their defaults
}

TEST(PipelineWarnings, SettingsThatAnotherOneMakesUselessAreNamed) {
  const auto of_model = [](const std::string& text) {
    return pipeline_warnings(parse_pipeline(
        "feature_configs { id_feature { feature_name: 'c' num_buckets: 9 embedding_dim: 4 } } "
        "model_config { feature_groups { group_name: 'all' feature_names: 'c' } " +
            text + " }",
        "test"));
  };
  const std::string mask = "mask_net { mask_net_module { mask_block { aggregation_dim: 4 ";
  EXPECT_THAT(
      of_model(mask + "} } }"),
      testing::ElementsAre("mask_block.aggregation_dim has no effect: reduction_ratio is 1; "
                           "set it to 0"));
  EXPECT_THAT(of_model(mask + "reduction_ratio: 0 } } }"), testing::IsEmpty());
  EXPECT_THAT(of_model("pepnet { task_domain_num: 3 }"),
              testing::Contains(HasSubstr("pepnet.task_domain_num has no effect")));
}

TEST(PipelineWarnings, SettingsOfOtherRunsAreNamed) {
  EXPECT_THAT(
      warnings({"train_config.grad_scaler={init_scale: 8}"}),
      testing::ElementsAre("train_config.grad_scaler has no effect: mixed_precision is not FP16"));
  EXPECT_THAT(
      warnings({"train_config.grad_scaler={init_scale: 8}", "train_config.mixed_precision=FP16"}),
      testing::IsEmpty());
  EXPECT_THAT(
      warnings({"data_config.stream_format=JSON_ROWS", "train_config.progressive_eval_rows=10"}),
      testing::ElementsAre(
          "data_config.stream_format has no effect: train_input_path is not a topic",
          "train_config.progressive_eval_rows has no effect: train_input_path is not a "
          "topic"));
}

TEST(PipelineWarnings, WhatZchDoesDifferentlyIsMentioned) {
  EXPECT_THAT(warnings({with_zch("zch_size: 10 eviction_interval: 7")}),
              testing::ElementsAre(HasSubstr(
                  "zch of features \"c1\", \"c2\", \"c3\": an id gets its row at its first")));
}

TEST(PipelineWarnings, SettingsThatFgNoneLeavesUnusedAreNamed) {
  const std::string normalizer =
      "feature_configs[0].raw_feature={feature_name: 'i{1..5}' normalizer: 'method=log1p'}";
  const std::string groups = "model_config.feature_groups[0].feature_names=['i{1..5}']";
  EXPECT_THAT(
      warnings({normalizer, groups}),
      testing::ElementsAre(
          "fg_mode is FG_NONE, so that normalizer of features \"i1\", \"i2\", \"i3\" and 2 more "
          "has no effect; set data_config { fg_mode: FG_DAG } to apply it"));
  EXPECT_THAT(warnings({normalizer, groups, "data_config.fg_mode=FG_DAG"}), testing::IsEmpty());
  EXPECT_THAT(warnings({normalizer, groups, "semantics_version=1"}), testing::IsEmpty());
  EXPECT_THAT(
      warnings({"feature_configs[1].id_feature={feature_name: 'c{1..3}' hash_bucket_size: 9 "
                "embedding_dim: 4 "
                "expression: 'user:C{1..3}'}"}),
      testing::ElementsAre(
          HasSubstr("expression of features \"c1\", \"c2\", \"c3\" has no effect"),
          HasSubstr("hash_bucket_size of features \"c1\", \"c2\", \"c3\" sizes the table")));
  EXPECT_THAT(
      warnings({"data_config.fg_encoded=false"}),
      testing::ElementsAre("data_config.fg_encoded is deprecated; write fg_mode: FG_DAG instead"));
}

TEST(CheckPipeline, EveryMlpIsConsistent) {
  EXPECT_EQ(problem_of({"model_config.dlrm.dense_mlp.dropout_ratio=[0.1, 0.2]"}), "fine");
  EXPECT_EQ(problem_of({"model_config.dlrm.dense_mlp.dropout_ratio=[0.1]"}), "fine");
  EXPECT_EQ(problem_of({"model_config.dlrm.dense_mlp.dropout_ratio=[0.1, 0.2, 0.3]"}),
            "model_config.dlrm.dense_mlp.dropout_ratio has 3 numbers, expected one, or one for "
            "each of the 2 hidden_units");
  EXPECT_EQ(problem_of({"model_config.dlrm.final.dropout_ratio=1"}),
            "model_config.dlrm.final.dropout_ratio is 1, expected at least 0 and less than 1");
  EXPECT_EQ(problem_of({"model_config.dlrm.final.hidden_units=[4, 0]"}),
            "model_config.dlrm.final.hidden_units[1] is 0, expected at least 1");
  EXPECT_EQ(problem_of({"model_config.dlrm.final={hidden_units: 4 use_bn: true use_ln: true}"}),
            "model_config.dlrm.final has both use_bn and use_ln; keep one of them");
}

}  // namespace
}  // namespace emblem
