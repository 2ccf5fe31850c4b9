#include "model/lookup/lookup_groups.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "config/feature/items.h"
#include "config/feature/sequences.h"

namespace emblem {
namespace {

using config::ModelConfig;

// Features that a group names, and which of their tables it reads.
struct NamedFeatures {
  std::vector<std::string> names;
  std::string suffix;

  bool contains(const std::string& feature) const {
    return std::find(names.begin(), names.end(), feature) != names.end();
  }
};

std::vector<NamedFeatures> groups_of_type(const ModelConfig& model, config::FeatureGroupType type) {
  std::vector<NamedFeatures> found;
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    if (group.group_type() == type)
      found.push_back({{group.feature_names().begin(), group.feature_names().end()},
                       group.embedding_name_suffix()});
  }
  return found;
}

std::vector<NamedFeatures> groups_of_sequences(const ModelConfig& model) {
  std::vector<NamedFeatures> found;
  for (const SequenceGroup& group : sequence_groups_of(model))
    found.push_back({group.features, group.suffix});
  return found;
}

// A feature that several groups name with one suffix is looked up once.
void add_use(std::vector<GroupedFeature>& uses, const FeatureSpec& feature, TableFamily family,
             const std::string& suffix, int64_t dim) {
  const auto same = [&](const GroupedFeature& use) {
    return use.feature == &feature && use.suffix == suffix;
  };
  if (std::any_of(uses.begin(), uses.end(), same)) return;
  uses.push_back({.feature = &feature,
                  .suffix = suffix,
                  .table = table_name_in(feature, family, suffix),
                  .dim = dim});
}

// Uses in the order of features.
std::vector<GroupedFeature> uses_in(const std::vector<NamedFeatures>& groups,
                                    const FeatureLayout& layout, TableFamily family,
                                    int64_t wide_dim) {
  std::vector<GroupedFeature> uses;
  for (const FeatureSpec& feature : layout.features) {
    if (feature.kind != FeatureKind::kSparse) continue;
    const int64_t dim = family == TableFamily::kWide ? wide_dim : embedding_dim_of(feature.config);
    for (const NamedFeatures& group : groups)
      if (group.contains(feature.name)) add_use(uses, feature, family, group.suffix, dim);
  }
  return uses;
}

void add_lookup(std::vector<LookupGroup>& groups, LookupGroup group) {
  if (group.features.empty()) return;
  for (GroupedFeature& feature : group.features) {
    feature.begin = group.is_stacked ? 0 : group.width;
    group.width = group.is_stacked ? feature.dim : group.width + feature.dim;
  }
  groups.push_back(std::move(group));
}

// Tables that are read in several spaces get a stacked lookup each.
void add_lookups(std::vector<LookupGroup>& groups, TableFamily family,
                 const std::vector<GroupedFeature>& uses) {
  std::map<std::string, std::set<int64_t>> spaces;
  std::set<int64_t> all_spaces;
  for (const GroupedFeature& use : uses) {
    spaces[use.table].insert(use.feature->sequence);
    all_spaces.insert(use.feature->sequence);
  }
  for (const int64_t space : all_spaces) {
    LookupGroup group{.family = family, .sequence = space};
    for (const GroupedFeature& use : uses) {
      if (use.feature->sequence == space && spaces[use.table].size() == 1)
        group.features.push_back(use);
    }
    add_lookup(groups, std::move(group));
  }
  for (const auto& [table, its_spaces] : spaces) {
    if (its_spaces.size() == 1) continue;
    LookupGroup group{.family = family, .is_stacked = true};
    std::copy_if(uses.begin(), uses.end(), std::back_inserter(group.features),
                 [&](const GroupedFeature& use) { return use.table == table; });
    add_lookup(groups, std::move(group));
  }
}

}  // namespace

std::string table_name_in(const FeatureSpec& feature, TableFamily family,
                          const std::string& suffix) {
  std::string name = table_name_of(feature.config);
  if (family == TableFamily::kWide) name += "_wide";
  if (!suffix.empty()) name += "_" + suffix;
  return family == TableFamily::kSequence ? name + "_seq" : name;
}

std::vector<size_t> sequences_read(const ModelConfig& model, const FeatureLayout& layout) {
  std::set<size_t> found;
  if (const int64_t items = items_in(layout); items >= 0) found.insert(static_cast<size_t>(items));
  for (const SequenceGroup& group : sequence_groups_of(model)) {
    for (const std::string& name : group.features) {
      const int64_t sequence = layout.find(name).sequence;
      if (sequence >= 0) found.insert(static_cast<size_t>(sequence));
    }
  }
  return {found.begin(), found.end()};
}

std::vector<LookupGroup> lookup_groups_of(const ModelConfig& model, const FeatureLayout& layout,
                                          int64_t wide_dim) {
  std::vector<LookupGroup> groups;
  const auto add = [&](TableFamily family, const std::vector<NamedFeatures>& named) {
    add_lookups(groups, family, uses_in(named, layout, family, wide_dim));
  };
  add(TableFamily::kDeep, groups_of_type(model, config::DEEP));
  add(TableFamily::kWide, groups_of_type(model, config::WIDE));
  add(TableFamily::kSequence, groups_of_sequences(model));
  return groups;
}

}  // namespace emblem
