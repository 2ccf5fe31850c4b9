// DAT: towers that read an augmented vector of the user or item besides. In training it learns to
// be like what the other tower says of the items that the user has chosen, and the reverse.
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/check/check_model.h"
#include "model/matching/towers.h"
#include "nn/matching.h"

namespace emblem {
namespace {

const config::DAT& dat_in(const config::PipelineConfig& config) {
  return config.model_config().dat();
}

// Learns from the squared distance of each row's augmented vector, divided by its length, to the
// other tower's vector: the sum over rows, or where rows have weights the weighted mean.
void add_mimicry(Graph& graph, const ModelInputs& inputs, Node augmented, Node vectors,
                 const HeadSpec& ranks, const std::string& name, float weight) {
  Graph::Target target = target_of(inputs, ranks);
  target.name = name;
  target.factor *= weight;
  mimicry_loss(graph, graph.normalize(augmented), vectors, target);
}

// In the order of matching_heads: ranks, and the vectors of both towers; or the vectors of users.
HeadLogits build_dat(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>& heads) {
  const config::DAT& dat = dat_in(inputs.config());
  const MatchingSpec model = matching_in(inputs.config());
  const Node users = add_matching_tower(graph, inputs, "user_tower", model.user, model);
  if (!model.has_item_tower) return {{users}};
  const Node items = add_matching_tower(graph, inputs, "item_tower", model.item, model);
  const Node of_users = inputs.group(dat.user_tower().augment_input()),
             of_items = inputs.group(dat.item_tower().augment_input());
  add_mimicry(graph, inputs, of_users, items_of_rows(graph, items), heads.at(0), "amm_loss_u",
              dat.amm_u_weight());
  add_mimicry(graph, inputs, items_of_rows(graph, of_items), users, heads.at(0), "amm_loss_i",
              dat.amm_i_weight());
  return {{add_ranks(graph, inputs, users, items, model)}, {users}, {items}};
}

void check_augmented(const config::PipelineConfig& config, const FeatureLayout& layout,
                     const std::string& name, int64_t dim) {
  const config::FeatureGroupConfig& group = *find_group(config.model_config(), name);
  EMBLEM_REQUIRE(group.sequence_groups_size() == 0, "feature group \"", printable(name),
                 "\" is an augment_input of dat, but has sequence_groups; remove them");
  int64_t width = 0;
  for (const std::string& feature : group.feature_names()) width += width_of(layout.find(feature));
  EMBLEM_REQUIRE(width == dim, "feature group \"", printable(name), "\" is ", width,
                 " wide, but the vectors of dat have ", dim,
                 " columns; an augment_input is compared with them: make its embedding_dim ", dim);
}

void check_dat(const config::PipelineConfig& config, const FeatureLayout& layout) {
  check_matching(config, layout);
  const config::DAT& dat = dat_in(config);
  for (const auto& [field, weight] :
       {std::pair("amm_u_weight", dat.amm_u_weight()), {"amm_i_weight", dat.amm_i_weight()}})
    EMBLEM_REQUIRE(weight >= 0, "dat.", field, " is ", weight, ", expected at least 0");
  const int64_t dim = matching_in(config).vector_dim();
  check_augmented(config, layout, dat.user_tower().augment_input(), dim);
  if (dat.has_item_tower()) check_augmented(config, layout, dat.item_tower().augment_input(), dim);
}

}  // namespace

ModelKind dat_model() {
  return {.name = "dat", .groups = groups_of_towers, .check = check_dat, .build_heads = build_dat};
}

}  // namespace emblem
