#include "config/load/prediction_layout.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>

#include "config/feature/items.h"
#include "config/feature/matching.h"
#include "config/feature/towers.h"
#include "loss/from_config.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

using NameSet = std::unordered_set<std::string>;

void add_names(const config::FeatureGroupConfig& group, NameSet& names) {
  names.insert(group.feature_names().begin(), group.feature_names().end());
  for (const config::SeqGroupConfig& nested : group.sequence_groups())
    names.insert(nested.feature_names().begin(), nested.feature_names().end());
}

NameSet names_in_groups(const config::ModelConfig& model) {
  NameSet names;
  for (const config::FeatureGroupConfig& group : model.feature_groups()) add_names(group, names);
  return names;
}

// What the features of `read` are computed from.
void add_inputs(const FeatureLayout& layout, NameSet& read) {
  for (const FeatureSpec& spec : layout.features) {
    if (!read.contains(spec.name)) continue;
    for (const FeatureInput& input : spec.inputs)
      if (input.source == FeatureInput::Source::kFeature) read.insert(input.name);
  }
}

// The features that have the lengths of sequences that are read.
void add_lengths(const FeatureLayout& layout, NameSet& read) {
  for (const SequenceSpec& sequence : layout.sequences) {
    const auto spec = [&](size_t at) -> const FeatureSpec& { return layout.features[at]; };
    const bool is_read = std::any_of(sequence.features.begin(), sequence.features.end(),
                                     [&](size_t at) { return read.contains(spec(at).name); });
    if (!is_read) continue;
    const auto first = std::find_if(sequence.features.begin(), sequence.features.end(),
                                    [&](size_t at) { return !spec(at).is_intermediate; });
    if (first != sequence.features.end()) read.insert(spec(*first).name);
  }
}

FeatureLayout with_inputs_of(NameSet read, FeatureLayout layout) {
  for (size_t before = 0; before != read.size();) {
    before = read.size();
    add_inputs(layout, read);
    add_lengths(layout, read);
  }
  for (FeatureSpec& spec : layout.features)
    if (!read.contains(spec.name)) spec.inputs.clear();
  return layout;
}

}  // namespace

FeatureLayout prediction_layout(FeatureLayout layout, const config::ModelConfig& model) {
  return with_inputs_of(names_in_groups(model), std::move(layout));
}

FeatureLayout prediction_layout(FeatureLayout layout, const config::ModelConfig& model,
                                std::span<const OutputSpec> outputs) {
  const auto matching = matching_of(model);
  if (!matching || !matching->has_item_tower || items_in(layout) >= 0)
    return prediction_layout(std::move(layout), model);
  // Heads of a matching model: ranks, vectors of users, vectors of items.
  constexpr int64_t kUsers = 1, kItems = 2;
  std::set<std::string> groups;
  for (const OutputSpec& output : outputs) {
    if (output.head != kItems)
      groups.insert(matching->user.groups.begin(), matching->user.groups.end());
    if (output.head != kUsers)
      groups.insert(matching->item.groups.begin(), matching->item.groups.end());
  }
  NameSet read;
  for (const config::FeatureGroupConfig& group : model.feature_groups())
    if (groups.contains(group.group_name())) add_names(group, read);
  return with_inputs_of(std::move(read), std::move(layout));
}

FeatureLayout training_layout(FeatureLayout layout, const config::ModelConfig& model) {
  NameSet read = names_in_groups(model);
  for (const TowerSpec& tower : towers_of(model)) {
    for (const config::MetricConfig& metric : tower.metrics)
      read.insert(grouping_key_of(metric).value_or(""));
    for (const config::LossConfig& loss : tower.losses) read.insert(session_of(loss).value_or(""));
  }
  return with_inputs_of(std::move(read), std::move(layout));
}

}  // namespace emblem
