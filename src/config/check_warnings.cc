#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "config/check.h"
#include "config/features.h"
#include "config/groups.h"
#include "config/metrics.h"
#include "config/no_effect.h"
#include "config/towers.h"
#include "core/text.h"
#include "emblem/error.h"
#include "kafka/address.h"

namespace emblem {
namespace {

using Names = std::vector<std::string>;

// `features "a", "b" and 3 more`
std::string list(const Names& names) {
  constexpr size_t kShown = 3;
  std::string text = names.size() == 1 ? "feature " : "features ";
  for (size_t i = 0; i < names.size() && i < kShown; ++i)
    text += cat(i == 0 ? "" : ", ", '"', printable(names[i]), '"');
  return names.size() <= kShown ? text : cat(text, " and ", names.size() - kShown, " more");
}

// The settings of a feature that FG_NONE does not use.
Names unused_by_fg_none(const FeatureSpec& spec) {
  const FeatureSettings& settings = spec.settings;
  const google::protobuf::Message& message = message_of(spec.config);
  Names unused;
  const auto add = [&](bool given, const char* setting) {
    if (given) unused.push_back(setting);
  };
  const auto is_set = [&](const char* setting) {
    const auto* field = message.GetDescriptor()->FindFieldByName(setting);
    return field != nullptr && message.GetReflection()->HasField(message, field);
  };
  const bool reads_itself =
      settings.expressions.size() == 1 &&
      settings.expressions[0].substr(settings.expressions[0].find(':') + 1) == spec.name;
  add(!settings.expressions.empty() && !reads_itself, "expression");
  add(settings.hash_bucket_size.has_value(), "hash_bucket_size");
  add(!settings.boundaries.empty(), "boundaries");
  add(!settings.normalizer.empty(), "normalizer");
  add(is_set("default_value"), "default_value");
  add(is_set("separator"), "separator");
  add(!settings.na_strings.empty(), "na_strings");
  add(settings.number_format != config::PLAIN, "number_format");
  add(settings.date_part != config::NO_DATE, "date_part");
  return unused;
}

void warn_of_fg_none(const FeatureLayout& layout, Names& warnings) {
  for (const char* setting :
       {"expression", "hash_bucket_size", "boundaries", "normalizer", "default_value", "separator",
        "na_strings", "number_format", "date_part"}) {
    Names features;
    for (const FeatureSpec& spec : layout.features) {
      for (const std::string& unused : unused_by_fg_none(spec))
        if (unused == setting) features.push_back(spec.name);
    }
    if (features.empty()) continue;
    const bool sizes =
        setting == std::string("hash_bucket_size") || setting == std::string("boundaries");
    warnings.push_back(
        cat("fg_mode is FG_NONE, so that ", setting, " of ", list(features),
            sizes ? " sizes the table, but does not change values" : " has no effect",
            "; set data_config { fg_mode: FG_DAG } to apply it"));
  }
}

void warn_of_zch(const FeatureLayout& layout, Names& warnings) {
  Names features;
  for (const FeatureSpec& spec : layout.features)
    if (spec.settings.zch) features.push_back(spec.name);
  if (features.empty()) return;
  warnings.push_back(cat("zch of ", list(features),
                         ": an id gets its row at its first occurrence in training, whatever "
                         "eviction_interval is, and an id without a row reads as zeros, where "
                         "TorchEasyRec has a shared row"));
}

void warn_of_groups(const config::PipelineConfig& config, const FeatureLayout& layout,
                    Names& warnings) {
  std::set<std::string> used, grouped;
  for (const GroupUse& use : groups_used(config)) used.insert(use.group);
  for (const config::FeatureGroupConfig& group : config.model_config().feature_groups()) {
    grouped.insert(group.feature_names().begin(), group.feature_names().end());
    for (const config::SeqGroupConfig& nested : group.sequence_groups())
      grouped.insert(nested.feature_names().begin(), nested.feature_names().end());
    if (!used.contains(group.group_name()))
      warnings.push_back(
          cat("the model does not read feature group \"", printable(group.group_name()), "\""));
  }
  for (const TowerSpec& tower : towers_of(config.model_config())) {
    for (const config::MetricConfig& metric : tower.metrics)
      grouped.insert(grouping_key_of(metric));
    for (const config::LossConfig& loss : tower.losses)
      grouped.insert(loss.jrc_loss().session_name());
  }
  for (const FeatureSpec& spec : layout.features) {
    for (const FeatureInput& input : spec.inputs)
      if (input.source == FeatureInput::Source::kFeature) grouped.insert(input.name);
  }
  Names unused;
  for (const FeatureSpec& spec : layout.features)
    if (!grouped.contains(spec.name)) unused.push_back(spec.name);
  if (unused.empty()) return;
  warnings.push_back(cat(
      list(unused), unused.size() == 1 ? " is" : " are",
      " in no feature group and not used by the model; add ", unused.size() == 1 ? "it" : "them",
      " to feature_names of a group, or remove ", unused.size() == 1 ? "it" : "them"));
}

void warn_of_labels(const config::PipelineConfig& config, const FeatureLayout& layout,
                    Names& warnings) {
  const config::DataConfig& data = config.data_config();
  const bool towers = has_task_towers(config.model_config());
  if (!towers && data.label_fields_size() > 1)
    warnings.push_back(cat("data_config.label_fields names ", data.label_fields_size(),
                           " columns; the model learns the first, \"",
                           printable(data.label_fields(0)), "\""));
  if (!towers && data.sample_weight_fields_size() > 1)
    warnings.push_back(cat("data_config.sample_weight_fields names ",
                           data.sample_weight_fields_size(),
                           " columns; the model reads the "
                           "first, \"",
                           printable(data.sample_weight_fields(0)), "\""));
  if (!towers) return;
  for (const config::BayesTaskTower& tower : config.model_config().dbmtl().task_towers())
    if (tower.relation_tower_names_size() > 0 && !tower.has_relation_mlp())
      warnings.push_back(cat("tower \"", printable(tower.tower_name()),
                             "\" has relation_tower_names, but no relation_mlp, without which they "
                             "have no effect"));
  for (const std::string& field : data.label_fields()) {
    const bool used = std::any_of(layout.labels.begin(), layout.labels.end(),
                                  [&](const LabelSpec& label) { return label.name == field; });
    if (!used) warnings.push_back(cat("no tower reads label \"", printable(field), "\""));
  }
  for (const std::string& field : data.sample_weight_fields())
    if (std::find(layout.weight_fields.begin(), layout.weight_fields.end(), field) ==
        layout.weight_fields.end())
      warnings.push_back(cat("data_config.sample_weight_fields: no tower reads \"",
                             printable(field), "\"; name it by sample_weight_name of a tower"));
}

}  // namespace

std::vector<std::string> pipeline_warnings(const config::PipelineConfig& config) {
  const FeatureLayout layout = layout_of(config);
  const config::DataConfig& data = config.data_config();
  Names warnings;
  warn_of_labels(config, layout, warnings);
  if (config.train_config().divide_tables() > 1)
    warnings.push_back(cat("divide_tables is ", config.train_config().divide_tables(),
                           ": tables have that part of their rows, and the model is not the one "
                           "that the pipeline describes"));
  if (data.shuffle() && is_kafka_address(config.train_input_path()))
    warnings.push_back(
        "data_config.shuffle has no effect on a stream: rows are trained on in the order in which "
        "they arrive");
  if (data.holdout_fields_size() > 0 && data.holdout_ratio() == 0)
    warnings.push_back(
        "data_config.holdout_fields has no effect: holdout_ratio is 0 and no row is held out");
  if (data.has_fg_encoded())
    warnings.push_back(cat("data_config.fg_encoded is deprecated; write fg_mode: ",
                           config::FgMode_Name(layout.semantics.fg_mode), " instead"));
  if (layout.semantics.fg_mode == config::FG_NONE) warn_of_fg_none(layout, warnings);
  if (config.export_config().exporter_type() != "latest")
    warnings.push_back(
        cat("export_config.exporter_type \"", printable(config.export_config().exporter_type()),
            "\" has no effect: emblem export writes the checkpoint that it is given"));
  constexpr size_t kMostNamed = 8;
  const Names unused = settings_without_effect(config);
  for (size_t i = 0; i < unused.size() && i < kMostNamed; ++i)
    warnings.push_back(cat("no effect: ", unused[i]));
  if (unused.size() > kMostNamed)
    warnings.push_back(cat("no effect: ", unused.size() - kMostNamed, " more settings"));
  warn_of_zch(layout, warnings);
  warn_of_groups(config, layout, warnings);
  return warnings;
}

}  // namespace emblem
