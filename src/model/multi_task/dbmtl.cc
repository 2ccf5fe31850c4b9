// DBMTL: towers that read the outputs of the towers that they depend on.
#include <map>

#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

HeadLogits build_dbmtl(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>&) {
  const config::DBMTL& model = inputs.config().model_config().dbmtl();
  Node x = inputs.first_group();
  if (model.has_mask_net()) x = add_mask_net(graph, "mask_net", x, model.mask_net());
  x = add_mlp(graph, "bottom", x, model.bottom_mlp());
  std::vector<Node> experts;
  if (model.has_expert_mlp())
    experts = add_experts(graph, "experts", x, model.num_expert(), model.expert_mlp());

  HeadLogits logits;
  std::map<std::string, Node> outputs;  // outputs of the towers so far
  for (const config::BayesTaskTower& tower : model.task_towers()) {
    const std::string& name = tower.tower_name();
    const Node input =
        experts.empty() ? x : add_gate(graph, "gates." + name, x, model.gate_mlp(), experts);
    Node y = add_mlp(graph, "towers." + name, input, tower.mlp());
    if (tower.has_relation_mlp()) {
      std::vector<Node> related = {y};
      for (const std::string& other : tower.relation_tower_names()) {
        const auto found = outputs.find(other);
        EMBLEM_REQUIRE(found != outputs.end(), "dbmtl: the tower ", name, " is related to \"",
                       other, "\", which is not one of the towers before it");
        related.push_back(found->second);
      }
      y = add_mlp(graph, "relations." + name, graph.concat(related), tower.relation_mlp());
    }
    outputs[name] = y;
    logits.push_back({add_logits(graph, "output." + name, y, tower.num_class())});
  }
  return logits;
}

void check_dbmtl(const config::PipelineConfig& config, const FeatureLayout&) {
  const config::DBMTL& model = config.model_config().dbmtl();
  if (model.has_mask_net()) check_mask_net(model.mask_net(), "dbmtl.mask_net");
  if (model.has_bottom_mlp()) require_units(model.bottom_mlp(), "dbmtl.bottom_mlp");
  if (model.has_expert_mlp()) check_experts(model.expert_mlp(), model.num_expert(), "dbmtl");
}

}  // namespace

ModelKind dbmtl_model() {
  return {.name = "dbmtl",
          .groups = reads_first_group,
          .check = check_dbmtl,
          .warn =
              [](const config::ModelConfig& model, std::vector<std::string>& warnings) {
                warn_of_mask_net(model.dbmtl().mask_net(), warnings);
              },
          .build_heads = build_dbmtl};
}

}  // namespace emblem
