#include <set>
#include <string>
#include <vector>

#include "config/check.h"
#include "config/features.h"
#include "config/groups.h"
#include "core/text.h"
#include "emblem/error.h"

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
  const config::IdFeature& id = spec.config.id_feature();
  const config::RawFeature& raw = spec.config.raw_feature();
  Names unused;
  const auto add = [&](bool given, const char* setting) {
    if (given) unused.push_back(setting);
  };
  const std::string& expression = spec.config.has_id_feature() ? id.expression() : raw.expression();
  add(!expression.empty() && expression.substr(expression.find(':') + 1) != spec.name,
      "expression");
  add(id.has_hash_bucket_size(), "hash_bucket_size");
  add(raw.boundaries_size() > 0, "boundaries");
  add(!raw.normalizer().empty(), "normalizer");
  add(id.has_default_value() || raw.has_default_value(), "default_value");
  add(id.has_separator() || raw.has_separator(), "separator");
  return unused;
}

void warn_of_fg_none(const FeatureLayout& layout, Names& warnings) {
  for (const char* setting : {"expression", "hash_bucket_size", "boundaries", "normalizer",
                              "default_value", "separator"}) {
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

void warn_of_groups(const config::PipelineConfig& config, const FeatureLayout& layout,
                    Names& warnings) {
  std::set<std::string> used, grouped;
  for (const GroupUse& use : groups_used(config)) used.insert(use.group);
  for (const config::FeatureGroupConfig& group : config.model_config().feature_groups()) {
    grouped.insert(group.feature_names().begin(), group.feature_names().end());
    if (!used.contains(group.group_name()))
      warnings.push_back(
          cat("the model does not read feature group \"", printable(group.group_name()), "\""));
  }
  for (const config::MetricConfig& metric : config.model_config().metrics())
    grouped.insert(metric.grouped_auc().grouping_key());
  Names unused;
  for (const FeatureSpec& spec : layout.features)
    if (!grouped.contains(spec.name)) unused.push_back(spec.name);
  if (unused.empty()) return;
  warnings.push_back(cat(
      list(unused), unused.size() == 1 ? " is" : " are",
      " in no feature group and not used by the model; add ", unused.size() == 1 ? "it" : "them",
      " to feature_names of a group, or remove ", unused.size() == 1 ? "it" : "them"));
}

}  // namespace

std::vector<std::string> pipeline_warnings(const config::PipelineConfig& config) {
  const FeatureLayout layout = layout_of(config);
  const config::DataConfig& data = config.data_config();
  Names warnings;
  if (data.label_fields_size() > 1)
    warnings.push_back(cat("data_config.label_fields names ", data.label_fields_size(),
                           " columns; the model learns the first, \"",
                           printable(data.label_fields(0)), "\""));
  if (data.has_fg_encoded())
    warnings.push_back(cat("data_config.fg_encoded is deprecated; write fg_mode: ",
                           config::FgMode_Name(layout.semantics.fg_mode), " instead"));
  if (layout.semantics.fg_mode == config::FG_NONE) warn_of_fg_none(layout, warnings);
  warn_of_groups(config, layout, warnings);
  return warnings;
}

}  // namespace emblem
