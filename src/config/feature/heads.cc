#include "config/feature/heads.h"

#include <algorithm>

#include "config/feature/labels.h"
#include "config/feature/matching.h"
#include "config/feature/towers.h"
#include "emblem/error.h"
#include "loss/candidate_rank.h"
#include "loss/from_config.h"

namespace emblem {
namespace {

template <class Columns, class NameOf>
int64_t position_of(const Columns& columns, const std::string& name, const NameOf& name_of) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const auto& column) { return name_of(column) == name; });
  return found == columns.end() ? -1 : found - columns.begin();
}

int64_t label_column(const FeatureLayout& layout, const std::string& name) {
  return position_of(layout.labels, name, [](const LabelSpec& label) { return label.name; });
}

int64_t weight_column(const FeatureLayout& layout, const std::string& name) {
  return position_of(layout.weight_fields, name, [](const std::string& field) { return field; });
}

std::vector<config::LossConfig> losses_of(const TowerSpec& tower) {
  if (!tower.losses.empty()) return tower.losses;
  config::LossConfig loss;
  loss.mutable_binary_cross_entropy();
  return {loss};
}

HeadSpec head_of(const TowerSpec& tower, const config::PipelineConfig& config,
                 const FeatureLayout& layout) {
  HeadSpec head;
  head.name = tower.name;
  head.losses = losses_of(tower);
  head.kind = kind_of_head(head.losses.front());
  head.classes = head.kind == HeadKind::kClass ? tower.num_class : 1;
  head.label = tower.label.empty() ? 0 : label_column(layout, tower.label);
  EMBLEM_REQUIRE(head.label >= 0, "tower \"", tower.name, "\" has no column for its label \"",
                 tower.label, "\"");
  head.weight = tower.weight;
  if (has_task_towers(config.model_config())) {
    if (!tower.sample_weight.empty())
      head.sample_weight = weight_column(layout, tower.sample_weight);
  } else if (!layout.weight_fields.empty()) {
    head.sample_weight = 0;
  }
  if (!tower.indicator.empty()) head.indicator = label_column(layout, tower.indicator);
  head.in_space = tower.in_space;
  head.out_space = tower.out_space;
  const std::string domain = domain_field_of(config.model_config());
  if (!domain.empty()) {
    head.domain = label_column(layout, domain);
    head.domains = domains_of(config.model_config());
  }
  head.in_training_only = tower.in_training_only;
  if (head.kind == HeadKind::kNumber) {
    const LabelScale scale = label_scale_of(head.losses.front());
    head.label_mean = scale.mean;
    head.label_deviation = scale.deviation;
  }
  head.metrics = tower.metrics;
  head.train_metrics = tower.train_metrics;
  return head;
}

// The heads of a matching model: how rows rank their candidates, and the vectors of both towers,
// those of a row one after the other; without the tower of items, the vectors of users alone.
std::vector<HeadSpec> matching_heads(const MatchingSpec& matching, HeadSpec ranks) {
  ranks.role = HeadSpec::Role::kRanks;
  ranks.classes = kRankColumns;
  std::vector<HeadSpec> heads;
  if (matching.has_item_tower) heads.push_back(std::move(ranks));
  const auto add = [&](const char* tower, int64_t count) {
    HeadSpec& vectors = heads.emplace_back();
    vectors.name = tower;
    vectors.role = HeadSpec::Role::kVector;
    vectors.classes = count * matching.vector_dim();
  };
  add("user_tower", matching.vectors);
  if (matching.has_item_tower) add("item_tower", 1);
  return heads;
}

// ---- outputs ----

struct NamedValue {
  const char* name;
  OutputSpec::Value value;
  bool by_default;
};

std::vector<NamedValue> values_of(const HeadSpec& head) {
  using Value = OutputSpec::Value;
  if (head.role == HeadSpec::Role::kRanks) return {};  // of training and evaluation
  if (head.role == HeadSpec::Role::kVector) return {{"emb", Value::kLogits, true}};
  switch (head.kind) {
    case HeadKind::kBinary:
      return {{"probs", Value::kProbability, true}, {"logits", Value::kLogits, false}};
    case HeadKind::kClass:
      if (head.classes == 2)
        return {{"probs1", Value::kProbability, true},
                {"probs", Value::kProbabilities, true},
                {"logits", Value::kLogits, false}};
      return {{"probs", Value::kProbabilities, true}, {"logits", Value::kLogits, false}};
    case HeadKind::kNumber:
      break;
  }
  return {{"y", Value::kNumber, true}};
}

int64_t cols_of(const HeadSpec& head, OutputSpec::Value value) {
  const bool per_class =
      value == OutputSpec::Value::kProbabilities || value == OutputSpec::Value::kLogits;
  return per_class ? head.classes : 1;
}

bool is_plain_binary(const std::vector<HeadSpec>& heads) {
  return heads.size() == 1 && heads[0].name.empty() && heads[0].kind == HeadKind::kBinary;
}

std::vector<OutputSpec> outputs_of(const std::vector<HeadSpec>& heads, bool all) {
  std::vector<OutputSpec> outputs;
  for (size_t h = 0; h < heads.size(); ++h) {
    const HeadSpec& head = heads[h];
    if (head.in_training_only) continue;
    for (const NamedValue& each : values_of(head)) {
      if (!all && !each.by_default) continue;
      for (int64_t domain = 0; domain < head.domains; ++domain) {
        OutputSpec output;
        output.name = head.role == HeadSpec::Role::kVector ? cat(head.name, "_", each.name)
                                                           : head.named(each.name);
        if (head.domain >= 0) output.name += "_" + std::to_string(domain);
        output.head = static_cast<int64_t>(h);
        output.value = each.value;
        output.cols = cols_of(head, each.value);
        output.domain = domain;
        output.mean = head.label_mean;
        output.deviation = head.label_deviation;
        outputs.push_back(std::move(output));
      }
    }
  }
  return outputs;
}

}  // namespace

std::vector<HeadSpec> heads_of(const config::PipelineConfig& config, const FeatureLayout& layout) {
  std::vector<HeadSpec> heads;
  for (const TowerSpec& tower : towers_of(config.model_config()))
    heads.push_back(head_of(tower, config, layout));
  if (const auto matching = matching_of(config.model_config()))
    return matching_heads(*matching, std::move(heads.at(0)));
  return heads;
}

std::vector<OutputSpec> default_outputs(const std::vector<HeadSpec>& heads) {
  if (is_plain_binary(heads)) return {OutputSpec{.name = "probability"}};
  return outputs_of(heads, false);
}

std::vector<OutputSpec> all_outputs(const std::vector<HeadSpec>& heads) {
  std::vector<OutputSpec> outputs;
  if (is_plain_binary(heads)) outputs.push_back(OutputSpec{.name = "probability"});
  for (OutputSpec& output : outputs_of(heads, true)) outputs.push_back(std::move(output));
  return outputs;
}

}  // namespace emblem
