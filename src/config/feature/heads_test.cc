#include "config/feature/heads.h"

#include <gmock/gmock.h>

#include "config/load/load.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Parsed {
  FeatureLayout layout;
  std::vector<HeadSpec> heads;
};

Parsed parse(const std::string& model, const std::string& data = "") {
  const PipelineConfig config = parse_pipeline(
      "data_config { label_fields: 'other' label_fields: 'clk' label_fields: 'buy' "
      "sample_weight_fields: 'v' sample_weight_fields: 'w' " +
          data + " } model_config { " + model + " }",
      "x");
  Parsed parsed{layout_of(config), {}};
  parsed.heads = heads_of(config, parsed.layout);
  return parsed;
}

std::vector<std::string> labels(const Parsed& parsed) {
  std::vector<std::string> names;
  for (const LabelSpec& label : parsed.layout.labels) names.push_back(label.name);
  return names;
}

std::vector<std::string> names(const std::vector<OutputSpec>& outputs) {
  std::vector<std::string> names;
  for (const OutputSpec& output : outputs) names.push_back(output.name);
  return names;
}

TEST(Heads, OfAModelWithOneTargetReadTheFirstLabelAndWeight) {
  const Parsed parsed = parse("dnn {}");
  EXPECT_THAT(labels(parsed), ElementsAre("other"));
  EXPECT_EQ(parsed.layout.labels[0].kind, LabelKind::kBinary);
  EXPECT_THAT(parsed.layout.weight_fields, ElementsAre("v"));
  ASSERT_EQ(parsed.heads.size(), 1u);
  const HeadSpec& head = parsed.heads[0];
  EXPECT_EQ(head.name, "");
  EXPECT_EQ(head.kind, HeadKind::kBinary);
  EXPECT_EQ(head.label, 0);
  EXPECT_EQ(head.sample_weight, 0);
  ASSERT_EQ(head.losses.size(), 1u);
  EXPECT_TRUE(head.losses[0].has_binary_cross_entropy());
  EXPECT_EQ(head.named("auc"), "auc");
  EXPECT_THAT(names(default_outputs(parsed.heads)), ElementsAre("probability"));
  EXPECT_THAT(names(all_outputs(parsed.heads)), ElementsAre("probability", "probs", "logits"));
}

TEST(Heads, OfSeveralLabelsThoseOfSomeLossesMayBeMissing) {
  const auto missing = [](const std::string& model) {
    std::vector<bool> may_be;
    for (const LabelSpec& label : parse(model).layout.labels)
      may_be.push_back(label.may_be_missing);
    return may_be;
  };
  const std::string clk = "task_towers { tower_name: 'a' label_name: 'clk' losses { ";
  const std::string buy = "task_towers { tower_name: 'b' label_name: 'buy' ";
  EXPECT_THAT(missing("dnn {}"), ElementsAre(false)) << "the only one";
  EXPECT_THAT(missing("mmoe { " + clk + "l2_loss {} } } " + buy + "} }"), ElementsAre(true, true));
  EXPECT_THAT(
      missing("mmoe { " + clk + "jrc_loss { session_name: 's' } } num_class: 2 } " + buy + "} }"),
      ElementsAre(false, true));
  EXPECT_THAT(
      missing("mmoe { " + clk + "l2_loss {} } } " + buy + "task_space_indicator_label: 'clk' } }"),
      ElementsAre(false, true))
      << "it says which rows are in a task space";
}

TEST(Heads, LossesDecideWhatAnOutputIs) {
  const Parsed classes = parse("num_class: 3 losses { softmax_cross_entropy {} } dnn {}");
  EXPECT_EQ(classes.heads[0].kind, HeadKind::kClass);
  EXPECT_EQ(classes.heads[0].classes, 3);
  EXPECT_EQ(classes.layout.labels[0].kind, LabelKind::kClass);
  EXPECT_EQ(classes.layout.labels[0].classes, 3);
  EXPECT_THAT(names(default_outputs(classes.heads)), ElementsAre("probs"));
  EXPECT_EQ(default_outputs(classes.heads)[0].cols, 3);

  const Parsed two = parse("num_class: 2 losses { jrc_loss { session_name: 's' } } dnn {}");
  EXPECT_THAT(names(all_outputs(two.heads)), ElementsAre("probs1", "probs", "logits"));

  const Parsed number = parse("losses { l2_loss {} } dnn {}");
  EXPECT_EQ(number.heads[0].kind, HeadKind::kNumber);
  EXPECT_EQ(number.layout.labels[0].kind, LabelKind::kNumber);
  EXPECT_THAT(names(default_outputs(number.heads)), ElementsAre("y"));
}

constexpr const char* kTowers = R"(
    task_towers { tower_name: "cvr" label_name: "buy" losses { binary_cross_entropy {} }
                  weight: 10 sample_weight_name: "w" task_space_indicator_label: "clk"
                  in_task_space_weight: 1 out_task_space_weight: 0
                  metrics { auc {} } train_metrics { auc {} } }
    task_towers { tower_name: "ctr" label_name: "clk" losses { binary_cross_entropy {} } })";

TEST(Heads, OfTowersFollowTheFile) {
  for (const char* model : {"mmoe", "ple", "dbmtl", "pepnet"}) {
    const std::string tower_type(kTowers);
    const Parsed parsed = parse(std::string(model) + " { " + kTowers + " }");
    EXPECT_THAT(labels(parsed), ElementsAre("clk", "buy")) << "in the order of label_fields";
    EXPECT_EQ(parsed.layout.labels[0].kind, LabelKind::kBinary) << "also where it is an indicator";
    EXPECT_THAT(parsed.layout.weight_fields, ElementsAre("w"));
    ASSERT_EQ(parsed.heads.size(), 2u);
    const HeadSpec& cvr = parsed.heads[0];
    EXPECT_EQ(cvr.name, "cvr");
    EXPECT_EQ(cvr.label, 1);
    EXPECT_EQ(cvr.indicator, 0);
    EXPECT_EQ(cvr.sample_weight, 0);
    EXPECT_EQ(cvr.weight, 10);
    EXPECT_EQ(cvr.out_space, 0);
    EXPECT_EQ(cvr.metrics.size(), 1u);
    EXPECT_EQ(cvr.train_metrics.size(), 1u);
    EXPECT_EQ(cvr.named("auc"), "auc_cvr");
    EXPECT_EQ(parsed.heads[1].label, 0);
    EXPECT_EQ(parsed.heads[1].sample_weight, -1);
    EXPECT_EQ(parsed.heads[1].indicator, -1);
    EXPECT_THAT(names(default_outputs(parsed.heads)), ElementsAre("probs_cvr", "probs_ctr"));
    EXPECT_THAT(names(all_outputs(parsed.heads)),
                ElementsAre("probs_cvr", "logits_cvr", "probs_ctr", "logits_ctr"));
  }
}

TEST(Heads, DomainsHaveOutputsOfTheirOwn) {
  const Parsed parsed = parse(
      "pepnet { domain_input_name: 'other' task_domain_num: 2 task_towers { tower_name: 'ctr' "
      "label_name: 'clk' losses { binary_cross_entropy {} } } }");
  EXPECT_THAT(labels(parsed), ElementsAre("other", "clk"));
  EXPECT_EQ(parsed.layout.labels[0].kind, LabelKind::kClass);
  EXPECT_EQ(parsed.layout.labels[0].classes, 2);
  EXPECT_EQ(parsed.heads[0].domains, 2);
  EXPECT_EQ(parsed.heads[0].domain, 0);
  EXPECT_EQ(parsed.heads[0].label, 1);
  const std::vector<OutputSpec> outputs = default_outputs(parsed.heads);
  EXPECT_THAT(names(outputs), ElementsAre("probs_ctr_0", "probs_ctr_1"));
  EXPECT_EQ(outputs[1].domain, 1);
}

TEST(Heads, TheBoosterIsThereInTrainingOnly) {
  const Parsed parsed = parse(
      "num_class: 2 losses { softmax_cross_entropy {} } metrics { auc {} } rocket_launching {}");
  EXPECT_THAT(labels(parsed), ElementsAre("other"));
  ASSERT_EQ(parsed.heads.size(), 2u);
  EXPECT_EQ(parsed.heads[0].named("auc"), "auc_light");
  EXPECT_FALSE(parsed.heads[0].in_training_only);
  EXPECT_EQ(parsed.heads[0].metrics.size(), 1u);
  EXPECT_EQ(parsed.heads[1].name, "booster");
  EXPECT_TRUE(parsed.heads[1].in_training_only);
  EXPECT_THAT(parsed.heads[1].metrics, IsEmpty());
  EXPECT_EQ(parsed.heads[1].losses.size(), 1u);
  EXPECT_THAT(names(default_outputs(parsed.heads)), ElementsAre("probs1_light", "probs_light"));
}

}  // namespace
}  // namespace emblem
