// MMoE: experts that tasks weigh by gates of their own.
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {

std::vector<Node> build_mmoe(Graph& graph, ModelInputs& inputs, const config::MMoE& model) {
  const Node x = inputs.first_group();
  const std::vector<Node> experts =
      add_experts(graph, "experts", x, model.num_expert(), model.expert_mlp());
  std::vector<Node> logits;
  for (const config::TaskTower& tower : model.task_towers()) {
    const Node mixed = add_gate(graph, "gates." + tower.tower_name(), x, model.gate_mlp(), experts);
    logits.push_back(add_task_tower(graph, mixed, tower));
  }
  return logits;
}

Node add_task_tower(Graph& graph, Node x, const config::TaskTower& tower,
                    const std::string& suffix) {
  const std::string name = tower.tower_name() + suffix;
  return add_logits(graph, "output." + name, add_mlp(graph, "towers." + name, x, tower.mlp()),
                    tower.num_class());
}

}  // namespace emblem
