#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"
#include "model/check/check.h"

namespace emblem {
namespace {

using testing::HasSubstr;

constexpr const char* kGood = R"(
    train_input_path: "train" model_dir: "out"
    train_config { num_epochs: 1 }
    data_config { label_fields: "clk" label_fields: "buy" sample_weight_fields: "w" }
    feature_configs { raw_feature { feature_name: "i" } }
    feature_configs { id_feature { feature_name: "c" num_buckets: 10 embedding_dim: 4 } }
    model_config {
      feature_groups { group_name: "all" feature_names: "i" feature_names: "c" }
      mmoe {
        expert_mlp { hidden_units: 8 } num_expert: 2
        task_towers { tower_name: "ctr" label_name: "clk" losses { binary_cross_entropy {} } }
        task_towers { tower_name: "cvr" label_name: "buy" losses { binary_cross_entropy {} } }
      }
    })";

std::string heads_verdict(const std::vector<std::string>& changes) {
  const PipelineConfig config = parse_pipeline(kGood, "good", changes);
  try {
    check_pipeline(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

TEST(CheckRanges, RefusesWhatNoModelCanHave) {
  EXPECT_EQ(heads_verdict({"model_config.mmoe.num_expert=100000"}),
            "model_config.mmoe.num_expert is 100000, expected at most 1000");
  EXPECT_EQ(heads_verdict({"model_config.mmoe.expert_mlp.hidden_units=[8, 1000000000]"}),
            "model_config.mmoe.expert_mlp.hidden_units[1] is 1000000000, expected at most 1000000");
  std::string layers = "8";
  for (int i = 0; i < 1000; ++i) layers += ", 8";
  EXPECT_EQ(heads_verdict({"model_config.mmoe.expert_mlp.hidden_units=[" + layers + "]"}),
            "model_config.mmoe.expert_mlp.hidden_units has 1001 entries, expected at most 1000");
  EXPECT_EQ(heads_verdict({"feature_configs[1].id_feature.embedding_dim=4000000000"}),
            "feature_configs[1].id_feature.embedding_dim is 4000000000, expected at most 1000000");
  EXPECT_EQ(heads_verdict({"model_config.mmoe.task_towers[0].weight=inf"}),
            "model_config.mmoe.task_towers[0].weight is inf, expected a finite number");
  EXPECT_EQ(heads_verdict({"model_config.variational_dropout.regularization_lambda=nan"}),
            "model_config.variational_dropout.regularization_lambda is nan, expected a finite "
            "number");
  EXPECT_EQ(heads_verdict({"model_config.variational_dropout.regularization_lambda=-1"}),
            "model_config.variational_dropout.regularization_lambda is -1, expected at least 0");
  EXPECT_EQ(heads_verdict({"feature_configs[1].id_feature.num_buckets=18446744073709551615"}),
            "feature \"c\": num_buckets is 18446744073709551615, expected at most "
            "9223372036854775807");
}

std::string tower(const std::string& change) {
  return heads_verdict({"model_config.mmoe.task_towers[1]." + change});
}

std::string model(const std::string& text) {
  return heads_verdict(
      {"model_config={feature_groups {group_name: 'g' feature_names: 'c' feature_names: "
       "'i'} " +
       text + "}"});
}

TEST(CheckHeads, TowersNameTheirLabelsAndLosses) {
  EXPECT_EQ(heads_verdict({}), "fine");
  EXPECT_EQ(tower("tower_name=ctr"), "two task towers are called \"ctr\"; rename one of them");
  EXPECT_EQ(tower("tower_name="), "a task tower has no tower_name");
  EXPECT_EQ(tower("label_name=bay"),
            "tower \"cvr\".label_name is \"bay\", which data_config.label_fields does not name; "
            "did you mean \"buy\"?");
  EXPECT_EQ(tower("label_name="),
            "tower \"cvr\" has no label_name; name one of data_config.label_fields");
  EXPECT_EQ(tower("losses=[]"),
            "tower \"cvr\" has no losses; give it binary_cross_entropy, for example");
  EXPECT_EQ(tower("losses=[{}]"),
            "tower \"cvr\".losses[0] names no loss; give binary_cross_entropy");
  EXPECT_THAT(heads_verdict({"model_config.mmoe.task_towers=[]"}), HasSubstr("has no task_towers"));
}

TEST(CheckHeads, TowersReadColumnsThatExist) {
  EXPECT_EQ(tower("task_space_indicator_label=clk"), "fine");
  EXPECT_THAT(tower("task_space_indicator_label=click"),
              HasSubstr("task_space_indicator_label is \"click\", which data_config.label_fields"));
  EXPECT_EQ(tower("sample_weight_name=w"), "fine");
  EXPECT_THAT(tower("sample_weight_name=other"), HasSubstr("sample_weight_fields does not name"));
  EXPECT_EQ(tower("weight=-1"), "tower \"cvr\".weight is -1, expected at least 0");
  EXPECT_THAT(tower("out_task_space_weight=-1"), HasSubstr("out_task_space_weight is -1"));
}

TEST(CheckHeads, ClassesFitTheLosses) {
  EXPECT_EQ(tower("num_class=2"),
            "tower \"cvr\".num_class is 2, but binary_cross_entropy has one output; set num_class: "
            "1, or use softmax_cross_entropy");
  EXPECT_EQ(tower("losses=[{softmax_cross_entropy {}}]"),
            "tower \"cvr\".num_class is 1, but softmax_cross_entropy needs at least 2 classes");
  EXPECT_EQ(tower("losses=[{jrc_loss {session_name: 'c'}}]"),
            "tower \"cvr\".num_class is 1, but jrc_loss needs 2 classes");
  EXPECT_EQ(model("losses {softmax_cross_entropy {}} num_class: 3 mask_net {mask_net_module "
                  "{n_mask_blocks: 1 mask_block {hidden_dim: 2}}}"),
            "fine");
  EXPECT_THAT(model("num_class: 2 dnn {}"), HasSubstr("the default loss, binary_cross_entropy"));
  EXPECT_EQ(model("losses {l2_loss {}} dnn {}"), "fine");
  EXPECT_THAT(model("losses {l2_loss {}} losses {binary_cross_entropy {}} dnn {}"),
              HasSubstr("l2_loss and binary_cross_entropy, which need different outputs"));
  EXPECT_EQ(model("losses {binary_focal_loss {}} losses {binary_cross_entropy {}} dnn {}"), "fine");
  EXPECT_EQ(model("losses {l2_loss {}} losses {l2_loss {}} dnn {}"),
            "model_config.losses has l2_loss twice; keep one of them");
}

TEST(CheckHeads, SettingsOfLossesAreInTheirRange) {
  EXPECT_EQ(model("losses {binary_cross_entropy {label_smoothing: 1}} dnn {}"),
            "model_config.losses[0].binary_cross_entropy.label_smoothing is 1, expected at least 0 "
            "and less than 1");
  for (const std::string alpha : {"2", "1", "0"})
    EXPECT_THAT(model("losses {binary_focal_loss {alpha: " + alpha + "}} dnn {}"),
                HasSubstr("alpha is " + alpha + ", expected more than 0 and less than 1"));
  const auto jrc = [](const std::string& settings) {
    return model("num_class: 2 losses {jrc_loss {" + settings + "}} dnn {}");
  };
  EXPECT_EQ(jrc("session_name: 'c'"), "fine");
  const auto ranks = [](const std::string& settings) {
    return model("losses {lambdarank_loss {" + settings + "}} dnn {}");
  };
  EXPECT_EQ(ranks("session_name: 'c'"), "fine");
  EXPECT_THAT(ranks(""), HasSubstr("has no session_name"));
  EXPECT_THAT(jrc(""), HasSubstr("has no session_name"));
  EXPECT_THAT(jrc("session_name: 'd'"), HasSubstr("jrc_loss.session_name: there is no feature"));
  EXPECT_THAT(jrc("session_name: 'i'"), HasSubstr("expected a categorical feature"));
  EXPECT_THAT(
      heads_verdict({"feature_configs[+]={id_feature {feature_name: 'u' num_buckets: 3 "
                     "embedding_dim: 4 stub_type: true}}",
                     "model_config={feature_groups {group_name: 'g' feature_names: 'c'} dnn {} "
                     "num_class: 2 losses {jrc_loss {session_name: 'u'}}}"}),
      HasSubstr("jrc_loss.session_name: feature \"u\" has stub_type: true"));
  EXPECT_EQ(model("losses {recon_loss {}} dnn {}"),
            "loss recon_loss is not supported yet; remove it");
}

TEST(CheckHeads, LabelsOfNumbersHaveAScale) {
  EXPECT_EQ(model("losses {l2_loss {mean: -3 standard_deviation: 2}} dnn {}"), "fine");
  EXPECT_EQ(model("losses {l2_loss {standard_deviation: 0}} dnn {}"),
            "model_config.losses[0].l2_loss.standard_deviation is 0, expected more than 0");
}

TEST(CheckHeads, MetricsFitTheOutput) {
  EXPECT_EQ(model("losses {l2_loss {}} metrics {auc {}} dnn {}"),
            "model_config: metric auc is for labels 0 and 1; use mean_squared_error, "
            "mean_absolute_error or xauc");
  EXPECT_THAT(
      model("num_class: 3 losses {softmax_cross_entropy {}} metrics {grouped_auc {}} dnn {}"),
      HasSubstr("use multiclass_auc or accuracy"));
  EXPECT_EQ(model("num_class: 3 losses {softmax_cross_entropy {}} metrics {log_loss {}} dnn {}"),
            "fine");
  EXPECT_THAT(model("losses {l2_loss {}} metrics {log_loss {}} dnn {}"),
              HasSubstr("metric log_loss is for classes; use mean_squared_error"));
  EXPECT_EQ(model("num_class: 2 losses {softmax_cross_entropy {}} metrics {auc {}} dnn {}"),
            "fine");
  EXPECT_THAT(model("metrics {multiclass_auc {}} dnn {}"), HasSubstr("use auc"));
}

TEST(CheckHeads, RelatedTowersComeEarlier) {
  const auto dbmtl = [](const std::string& first, const std::string& second) {
    return model(
        "dbmtl {task_towers {tower_name: 'ctr' label_name: 'clk' losses {binary_cross_entropy "
        "{}} " +
        first + "} task_towers {tower_name: 'cvr' label_name: 'buy' losses {binary_cross_entropy " +
        "{}} " + second + "}}");
  };
  const std::string mlp = "relation_mlp {hidden_units: 4} ";
  EXPECT_EQ(dbmtl("", mlp + "relation_tower_names: 'ctr'"), "fine");
  EXPECT_EQ(dbmtl(mlp + "relation_tower_names: 'cvr'", ""),
            "tower \"ctr\".relation_tower_names has \"cvr\", which is not an earlier tower; towers "
            "read those before them in the file");
  EXPECT_EQ(dbmtl("", mlp + "relation_tower_names: ['ctr', 'ctr']"),
            "tower \"cvr\".relation_tower_names has \"ctr\" twice; keep one of them");
}

TEST(CheckHeads, DomainsAreALabelField) {
  const auto pepnet = [](const std::string& settings) {
    return heads_verdict(
        {"model_config={feature_groups {group_name: 'all' feature_names: 'c'} pepnet {"
         "task_towers {tower_name: 'ctr' label_name: 'clk' losses "
         "{binary_cross_entropy {}}} " +
         settings + "}}"});
  };
  EXPECT_EQ(pepnet("domain_input_name: 'buy' task_domain_num: 3"), "fine");
  EXPECT_THAT(pepnet("domain_input_name: 'city' task_domain_num: 3"),
              HasSubstr("pepnet.domain_input_name is \"city\""));
}

TEST(CheckArchitecture, ModelsHaveTheirGroupsAndParts) {
  EXPECT_EQ(model("wukong {wukong_layers {lcb_feature_num: 1 fmb_feature_num: 1} final "
                  "{hidden_units: 2}}"),
            "feature \"i\" is numeric, but wukong reads only embeddings of group \"g\"; give it "
            "boundaries and an embedding_dim, or move it to group \"dense\"");
  const auto wukong = [](int units) {
    return heads_verdict(
        {"model_config={feature_groups {group_name: 'dense' feature_names: 'i'} "
         "feature_groups {group_name: 'sparse' feature_names: 'c'} wukong {dense_mlp "
         "{hidden_units: " +
         std::to_string(units) +
         "} wukong_layers {lcb_feature_num: 1 fmb_feature_num: 1} final {hidden_units: "
         "2}}}"});
  };
  EXPECT_EQ(wukong(4), "fine");
  EXPECT_EQ(wukong(128),
            "wukong.dense_mlp ends in 128 units, but the features of group \"sparse\" have "
            "embedding_dim 4; make them equal");
  EXPECT_EQ(model("xdeepfm {cin {cin_layer_size: 3}}"),
            "model_config has no feature group \"wide\", which xdeepfm needs; it has g");
  EXPECT_EQ(model("multi_tower {towers {input: 'user'}}"),
            "model_config has no feature group \"user\", which multi_tower needs; it has g");
  EXPECT_EQ(model("multi_tower_din {towers {input: 'g'} din_towers {input: 'g'}}"),
            "feature group \"g\" is DEEP, but multi_tower_din reads a sequence in it; set "
            "group_type: SEQUENCE");
  EXPECT_EQ(heads_verdict({"model_config.mmoe.num_expert=0"}),
            "mmoe.num_expert is 0, expected at least 1");
  EXPECT_EQ(heads_verdict({"model_config.mmoe.expert_mlp={}"}),
            "mmoe.expert_mlp has no hidden_units");
}

TEST(CheckArchitecture, ExpertsOfPleEndEqually) {
  const auto ple = [](int units) {
    return model(
        "ple {extraction_networks {expert_num_per_task: 1 share_num: 1 task_expert_net "
        "{hidden_units: [8, 4]} share_expert_net {hidden_units: " +
        std::to_string(units) +
        "}} task_towers {tower_name: 'ctr' label_name: 'clk' losses {binary_cross_entropy {}}}}");
  };
  EXPECT_EQ(ple(4), "fine");
  EXPECT_EQ(ple(6),
            "ple.extraction_networks[0] has experts of tasks that end in 4 units and shared ones "
            "that end in 6; they are mixed: make them equal");
}

TEST(PipelineWarnings, RelationsWithoutAnMlpAreMentioned) {
  const std::vector<std::string> changes = {
      "model_config={feature_groups {group_name: 'g' feature_names: ['c', 'i']} dbmtl {"
      "task_towers {tower_name: 'ctr' label_name: 'clk' losses {binary_cross_entropy {}}} "
      "task_towers {tower_name: 'cvr' label_name: 'buy' losses {binary_cross_entropy {}} "
      "relation_tower_names: 'ctr'}}}"};
  const auto warnings = pipeline_warnings(parse_pipeline(kGood, "good", changes));
  EXPECT_THAT(
      warnings,
      testing::ElementsAre(HasSubstr("tower \"cvr\" has relation_tower_names, but no relation_mlp"),
                           "data_config.sample_weight_fields: no tower reads \"w\"; name it by "
                           "sample_weight_name of a tower"));
}

TEST(CheckHeads, LossesAndClassesBelongIntoTowers) {
  EXPECT_EQ(
      heads_verdict({"model_config.losses=[{binary_cross_entropy {}}]"}),
      "model_config.losses has no effect on a model with task_towers; move it into its towers");
  EXPECT_EQ(heads_verdict({"model_config.num_class=2"}),
            "model_config.num_class has no effect on a model with task_towers; move it into its "
            "towers");
}

}  // namespace
}  // namespace emblem
