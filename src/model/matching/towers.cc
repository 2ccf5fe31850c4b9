#include "model/matching/towers.h"

#include <set>

#include "config/feature/items.h"
#include "config/feature/sequences.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/layers.h"
#include "nn/capsules.h"
#include "nn/matching.h"

namespace emblem {
namespace {

// Names of the tables that a group reads.
std::set<std::string> tables_of_group(const config::PipelineConfig& config,
                                      const FeatureLayout& layout, const std::string& name) {
  std::set<std::string> tables;
  const auto add = [&](const std::string& feature, TableFamily family, const std::string& suffix) {
    const FeatureSpec& spec = layout.find(feature);
    if (spec.kind == FeatureKind::kSparse) tables.insert(table_name_in(spec, family, suffix));
  };
  const config::FeatureGroupConfig& group = *find_group(config.model_config(), name);
  if (group.group_type() != config::SEQUENCE)
    for (const std::string& feature : group.feature_names())
      add(feature, TableFamily::kDeep, group.embedding_name_suffix());
  for (const SequenceGroup& sequence : sequence_groups_of(config.model_config()))
    if (sequence.owner == name)
      for (const std::string& feature : sequence.features)
        add(feature, TableFamily::kSequence, sequence.suffix);
  return tables;
}

void require_own_tables(const config::PipelineConfig& config, const FeatureLayout& layout,
                        const MatchingSpec& model) {
  std::set<std::string> of_items;
  for (const std::string& group : model.item.groups)
    of_items.merge(tables_of_group(config, layout, group));
  for (const std::string& group : model.user.groups)
    for (const std::string& table : tables_of_group(config, layout, group))
      EMBLEM_REQUIRE(!of_items.contains(table), "both towers of ",
                     model_name(config.model_config()), " read table \"", printable(table),
                     "\", but they share no tables; use dssm_v2, whose towers do, or give their "
                     "features different embedding_names");
}

// With a sampler all that the item tower reads has values for sampled items, and what the user
// tower reads has none.
void require_sampled_features(const config::PipelineConfig& config, const FeatureLayout& layout,
                              const MatchingSpec& model) {
  const int64_t items = items_in(layout);
  if (items < 0) return;
  const std::string sampler = item_sampler_of(config.data_config())->name;
  const auto require = [&](const char* tower, const std::string& group, bool is_sampled) {
    for (const std::string& name : find_group(config.model_config(), group)->feature_names())
      EMBLEM_REQUIRE((layout.find(name).sequence == items) == is_sampled, "feature \"",
                     printable(name), "\" of the ", tower, " tower reads a column that ",
                     is_sampled ? "is not" : "is", " among ", sampler,
                     ".attr_fields; negatives are items, which have values for all features of the "
                     "item tower and no others");
  };
  for (const std::string& group : model.user.groups) require("user", group, false);
  for (const std::string& group : model.item.groups) {
    require("item", group, true);
    EMBLEM_REQUIRE(
        find_group(config.model_config(), group)->sequence_groups_size() == 0,
        "the item tower reads sequences, which ", sampler,
        " has no values for; remove them, or set in_batch_negative: true without a sampler");
  }
}

void check_vector_dim(const MatchingSpec& model, const std::string& name) {
  EMBLEM_REQUIRE(model.output_dim >= 0, name, ".output_dim is ", model.output_dim,
                 ", expected at least 1, or unset");
  if (model.output_dim > 0) return;
  require_units(model.user.mlp, cat(name, ".user_tower.", model.user.mlp_field));
  if (!model.has_item_tower) return;
  require_units(model.item.mlp, name + ".item_tower.mlp");
  EMBLEM_REQUIRE(last_of(model.user.mlp) == last_of(model.item.mlp), name,
                 " has no output_dim, and its towers end in ", last_of(model.user.mlp), " and ",
                 last_of(model.item.mlp),
                 " hidden_units; their vectors are multiplied: set output_dim");
}

}  // namespace

MatchingSpec matching_in(const config::PipelineConfig& config) {
  return *matching_of(config.model_config());
}

std::vector<GroupUse> groups_of_towers(const config::PipelineConfig& config) {
  const MatchingSpec model = matching_in(config);
  std::vector<GroupUse> groups;
  for (const std::string& group : model.user.groups) groups.push_back({group});
  if (model.has_item_tower)
    for (const std::string& group : model.item.groups) groups.push_back({group});
  return groups;
}

Node add_matching_tower(Graph& graph, ModelInputs& inputs, const std::string& name,
                        const MatchingTower& tower, const MatchingSpec& model) {
  std::vector<Node> groups;
  for (const std::string& group : tower.groups) groups.push_back(inputs.group(group));
  Node x = add_mlp(graph, name, graph.concat(groups), tower.mlp);
  if (model.output_dim > 0) x = add_logits(graph, name + ".output", x, model.output_dim);
  return add_similarity(graph, x, model);
}

Node add_similarity(Graph& graph, Node vectors, const MatchingSpec& model) {
  return model.similarity == config::COSINE ? graph.normalize(vectors) : vectors;
}

Node items_of_rows(Graph& graph, Node items) {
  return graph.space(items) == Space{} ? items : first_elements(graph, items);
}

Node add_ranks(Graph& graph, ModelInputs& inputs, Node users, Node items,
               const MatchingSpec& model) {
  CandidateOptions options{
      .candidates = model.in_batch_negative ? Candidates::kAllItems : Candidates::kNegatives,
      .temperature = model.temperature};
  const CandidateSpec& candidates = inputs.layout().candidates;
  if (model.masks_equal_items) options.ids = inputs.ids(candidates.item_id);
  if (candidates.have_frequency) options.corrections = inputs.candidate_logs();
  if (candidates.are_of_single_rows) options.candidate_of = inputs.candidate_of();
  return rank_candidates(graph, users, items, options);
}

void check_matching(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const MatchingSpec model = matching_in(config);
  const std::string name = model_name(config.model_config());
  check_vector_dim(model, name);
  EMBLEM_REQUIRE(model.similarity != config::EUCLID, name,
                 ".similarity is EUCLID, expected COSINE or INNER_PRODUCT (which TorchEasyRec "
                 "computes for EUCLID, too)");
  EMBLEM_REQUIRE(model.temperature > 0, name, ".temperature is ", model.temperature,
                 ", expected more than 0");
  EMBLEM_REQUIRE(model.in_batch_negative || items_in(layout) >= 0 || !model.has_item_tower, name,
                 " has no negatives to learn from; set in_batch_negative: true or "
                 "data_config.negative_sampler");
  if (model.has_item_tower) require_sampled_features(config, layout, model);
  EMBLEM_REQUIRE(config.model_config().ensemble_size() == 1, "model_config.ensemble_size is ",
                 config.model_config().ensemble_size(), ", but ", name,
                 " does not support ensembles; set it to 1");
  if (!model.shares_tables && model.has_item_tower) require_own_tables(config, layout, model);
}

}  // namespace emblem
