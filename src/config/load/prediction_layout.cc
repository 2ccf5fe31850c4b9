#include "config/load/prediction_layout.h"

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

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

// The features that others need: what they are computed from, and those that have the lengths of
// their sequences. In linear time: a pipeline may come from a client.
class NeededFeatures {
 public:
  explicit NeededFeatures(const FeatureLayout& layout) : layout_(layout) {
    for (size_t at = 0; at < layout.features.size(); ++at)
      places_.emplace(layout.features[at].name, at);
    sequences_.resize(layout.features.size());
    for (size_t i = 0; i < layout.sequences.size(); ++i) {
      lengths_.push_back(length_of(layout.sequences[i]));
      for (const size_t at : layout.sequences[i].features) sequences_[at].push_back(i);
    }
  }

  // `read` and all that these need.
  NameSet add_needed(NameSet read) const {
    std::vector<std::string> left(read.begin(), read.end());
    const auto add = [&](const std::string& name) {
      if (read.insert(name).second) left.push_back(name);
    };
    while (!left.empty()) {
      const auto place = places_.find(left.back());
      left.pop_back();
      if (place == places_.end()) continue;
      for (const FeatureInput& input : layout_.features[place->second].inputs)
        if (input.source == FeatureInput::Source::kFeature) add(input.name);
      for (const size_t sequence : sequences_[place->second])
        if (lengths_[sequence] != nullptr) add(lengths_[sequence]->name);
    }
    return read;
  }

 private:
  const FeatureSpec* length_of(const SequenceSpec& sequence) const {
    for (const size_t at : sequence.features)
      if (!layout_.features[at].is_intermediate) return &layout_.features[at];
    return nullptr;
  }

  const FeatureLayout& layout_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::vector<size_t>> sequences_;  // of each feature
  std::vector<const FeatureSpec*> lengths_;     // of each sequence; null: none has it
};

FeatureLayout with_inputs_of(NameSet read, FeatureLayout layout) {
  read = NeededFeatures(layout).add_needed(std::move(read));
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
  read.insert({layout.candidates.item_id, layout.candidates.user_id});
  return with_inputs_of(std::move(read), std::move(layout));
}

}  // namespace emblem
