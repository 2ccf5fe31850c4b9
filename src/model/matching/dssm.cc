// DSSM: a tower for users and one for items. A row is a user's choice of an item, which competes
// with the items of other rows. The towers of dssm have tables of their own, those of dssm_v2 share
// tables that both name.
#include "model/matching/towers.h"

namespace emblem {
namespace {

// In the order of matching_heads: ranks, and the vectors of both towers; or the vectors of users.
HeadLogits build_dssm(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>&) {
  const MatchingSpec model = matching_in(inputs.config());
  const Node users = add_matching_tower(graph, inputs, "user_tower", model.user, model);
  if (!model.has_item_tower) return {{users}};
  const Node items = add_matching_tower(graph, inputs, "item_tower", model.item, model);
  return {{add_ranks(graph, inputs, users, items, model)}, {users}, {items}};
}

}  // namespace

ModelKind dssm_model() {
  return {.name = "dssm",
          .groups = groups_of_towers,
          .check = check_matching,
          .build_heads = build_dssm};
}

ModelKind dssm_v2_model() {
  return {.name = "dssm_v2",
          .groups = groups_of_towers,
          .check = check_matching,
          .build_heads = build_dssm};
}

}  // namespace emblem
