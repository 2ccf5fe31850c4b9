// DSSM: a tower for users and one for items. A row is a user's choice of an item, which competes
// with the items of other rows. The towers of dssm have tables of their own, those of dssm_v2 share
// tables that both name.
#include <algorithm>
#include <set>

#include "config/feature/items.h"
#include "config/feature/matching.h"
#include "config/feature/sequences.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"
#include "nn/matching.h"

namespace emblem {
namespace {

MatchingSpec matching_in(const config::PipelineConfig& config) {
  return *matching_of(config.model_config());
}

Node add_matching_tower(Graph& graph, ModelInputs& inputs, const std::string& name,
                        const config::Tower& tower, const MatchingSpec& model) {
  Node x = add_mlp(graph, name, inputs.group(tower.input()), tower.mlp());
  if (model.output_dim > 0) x = add_logits(graph, name + ".output", x, model.output_dim);
  return model.similarity == config::COSINE ? graph.normalize(x) : x;
}

// In the order of matching_heads: ranks, and the vectors of both towers.
HeadLogits build_dssm(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>&) {
  const MatchingSpec model = matching_in(inputs.config());
  const Node users = add_matching_tower(graph, inputs, "user_tower", model.user, model);
  const Node items = add_matching_tower(graph, inputs, "item_tower", model.item, model);
  const Candidates candidates =
      model.in_batch_negative ? Candidates::kAllItems : Candidates::kNegatives;
  return {{rank_candidates(graph, users, items, candidates, model.temperature)}, {users}, {items}};
}

std::vector<GroupUse> groups_of_towers(const config::PipelineConfig& config) {
  const MatchingSpec model = matching_in(config);
  return {{model.user.input()}, {model.item.input()}};
}

// Names of the tables that a group reads.
std::set<std::string> tables_of_group(const config::PipelineConfig& config,
                                      const FeatureLayout& layout, const std::string& name) {
  std::set<std::string> tables;
  const auto add = [&](const std::string& feature, TableFamily family, const std::string& suffix) {
    const FeatureSpec& spec = layout.find(feature);
    if (spec.kind == FeatureKind::kSparse) tables.insert(table_name_in(spec, family, suffix));
  };
  const config::FeatureGroupConfig& group = *find_group(config.model_config(), name);
  for (const std::string& feature : group.feature_names())
    add(feature, TableFamily::kDeep, group.embedding_name_suffix());
  for (const SequenceGroup& nested : sequence_groups_of(config.model_config()))
    if (nested.owner == name)
      for (const std::string& feature : nested.features)
        add(feature, TableFamily::kSequence, nested.suffix);
  return tables;
}

void require_own_tables(const config::PipelineConfig& config, const FeatureLayout& layout,
                        const MatchingSpec& model) {
  const auto of_users = tables_of_group(config, layout, model.user.input()),
             of_items = tables_of_group(config, layout, model.item.input());
  for (const std::string& table : of_users)
    EMBLEM_REQUIRE(!of_items.contains(table), "both towers of dssm read table \"", printable(table),
                   "\", but they share no tables; use dssm_v2, whose towers do, or give their "
                   "features different embedding_names");
}

// With a sampler all that the item tower reads has values for sampled items, and what the user
// tower reads has none.
void require_sampled_features(const config::PipelineConfig& config, const FeatureLayout& layout,
                              const MatchingSpec& model) {
  const int64_t items = items_in(layout);
  if (items < 0) return;
  const auto require = [&](const std::string& tower, const std::string& group, bool is_sampled) {
    for (const std::string& name : find_group(config.model_config(), group)->feature_names())
      EMBLEM_REQUIRE((layout.find(name).sequence == items) == is_sampled, "feature \"",
                     printable(name), "\" of the ", tower, " tower reads a column that ",
                     is_sampled ? "is not" : "is",
                     " among data_config.negative_sampler.attr_fields; negatives are items, which "
                     "have values for all features of the item tower and no others");
  };
  require("user", model.user.input(), false);
  require("item", model.item.input(), true);
  EMBLEM_REQUIRE(find_group(config.model_config(), model.item.input())->sequence_groups_size() == 0,
                 "the item tower reads sequences, which data_config.negative_sampler has no values "
                 "for; remove them, or set in_batch_negative: true without a sampler");
}

void check_dssm(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const MatchingSpec model = matching_in(config);
  const std::string name = model_name(config.model_config());
  EMBLEM_REQUIRE(model.output_dim >= 0, name, ".output_dim is ", model.output_dim,
                 ", expected at least 1, or unset");
  if (model.output_dim == 0) {
    require_units(model.user.mlp(), name + ".user_tower.mlp");
    require_units(model.item.mlp(), name + ".item_tower.mlp");
    EMBLEM_REQUIRE(last_of(model.user.mlp()) == last_of(model.item.mlp()), name,
                   " has no output_dim, and its towers end in ", last_of(model.user.mlp()), " and ",
                   last_of(model.item.mlp()),
                   " hidden_units; their vectors are multiplied: set output_dim");
  }
  EMBLEM_REQUIRE(model.similarity != config::EUCLID, name,
                 ".similarity is EUCLID, expected COSINE or INNER_PRODUCT (which TorchEasyRec "
                 "computes for EUCLID, too)");
  EMBLEM_REQUIRE(model.temperature > 0, name, ".temperature is ", model.temperature,
                 ", expected more than 0");
  EMBLEM_REQUIRE(model.in_batch_negative || items_in(layout) >= 0, name,
                 " has no negatives to learn from; set in_batch_negative: true or "
                 "data_config.negative_sampler");
  require_sampled_features(config, layout, model);
  EMBLEM_REQUIRE(config.model_config().ensemble_size() == 1, "model_config.ensemble_size is ",
                 config.model_config().ensemble_size(), ", but ", name,
                 " gives vectors, of which there is no mean; remove it");
  if (!model.shares_tables) require_own_tables(config, layout, model);
}

}  // namespace

ModelKind dssm_model() {
  return {
      .name = "dssm", .groups = groups_of_towers, .check = check_dssm, .build_heads = build_dssm};
}

ModelKind dssm_v2_model() {
  return {.name = "dssm_v2",
          .groups = groups_of_towers,
          .check = check_dssm,
          .build_heads = build_dssm};
}

}  // namespace emblem
