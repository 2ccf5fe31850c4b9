// Towers: an MLP over each feature group, and attention over each sequence group, joined by a final
// MLP.
#include "model/builders.h"
#include "model/encoders.h"
#include "model/layers.h"

namespace emblem {
namespace {

template <class Towers>
std::vector<Node> add_towers(Graph& graph, ModelInputs& inputs, const Towers& towers) {
  std::vector<Node> outputs;
  for (const config::Tower& tower : towers)
    outputs.push_back(
        add_mlp(graph, "towers." + tower.input(), inputs.group(tower.input()), tower.mlp()));
  return outputs;
}

}  // namespace

Node build_multi_tower(Graph& graph, ModelInputs& inputs, const config::MultiTower& model,
                       int64_t classes) {
  const std::vector<Node> towers = add_towers(graph, inputs, model.towers());
  return add_logits(graph, "output", add_mlp(graph, "final", graph.concat(towers), model.final()),
                    classes);
}

Node build_multi_tower_din(Graph& graph, ModelInputs& inputs, const config::MultiTowerDIN& model,
                           int64_t classes) {
  std::vector<Node> towers = add_towers(graph, inputs, model.towers());
  for (const config::DINTower& tower : model.din_towers())
    towers.push_back(add_din(graph, "din_towers." + tower.input(), inputs.sequence(tower.input()),
                             tower.attn_mlp()));
  return add_logits(graph, "output", add_mlp(graph, "final", graph.concat(towers), model.final()),
                    classes);
}

}  // namespace emblem
