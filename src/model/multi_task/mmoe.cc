// MMoE: experts that tasks weigh by gates of their own.
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

HeadLogits build_mmoe(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>&) {
  const config::MMoE& model = inputs.config().model_config().mmoe();
  const Node x = inputs.first_group();
  const std::vector<Node> experts =
      add_experts(graph, "experts", x, model.num_expert(), model.expert_mlp());
  HeadLogits logits;
  for (const config::TaskTower& tower : model.task_towers()) {
    const Node mixed = add_gate(graph, "gates." + tower.tower_name(), x, model.gate_mlp(), experts);
    logits.push_back({add_task_tower(graph, mixed, tower)});
  }
  return logits;
}

}  // namespace

ModelKind mmoe_model() {
  return {.name = "mmoe",
          .groups = reads_first_group,
          .check =
              [](const config::PipelineConfig& config, const FeatureLayout&) {
                const config::MMoE& model = config.model_config().mmoe();
                check_experts(model.expert_mlp(), model.num_expert(), "mmoe");
              },
          .build_heads = build_mmoe};
}

}  // namespace emblem
