// Towers: an MLP over each feature group, and attention over each sequence group, joined by a final
// MLP.
#include "emblem/error.h"
#include "model/layers/encoders.h"
#include "model/layers/layers.h"
#include "model/models.h"

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

Node build_multi_tower(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::MultiTower& model = inputs.config().model_config().multi_tower();
  const std::vector<Node> towers = add_towers(graph, inputs, model.towers());
  return add_logits(graph, "output", add_mlp(graph, "final", graph.concat(towers), model.final()),
                    classes);
}

Node build_multi_tower_din(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::MultiTowerDIN& model = inputs.config().model_config().multi_tower_din();
  std::vector<Node> towers = add_towers(graph, inputs, model.towers());
  for (const config::DINTower& tower : model.din_towers())
    towers.push_back(add_din(graph, "din_towers." + tower.input(), inputs.sequence(tower.input()),
                             tower.attn_mlp()));
  return add_logits(graph, "output", add_mlp(graph, "final", graph.concat(towers), model.final()),
                    classes);
}

template <class Towers>
void add_uses(const Towers& towers, GroupPart part, std::vector<GroupUse>& uses) {
  for (const auto& tower : towers) uses.push_back({tower.input(), part});
}

}  // namespace

ModelKind multi_tower_model() {
  return {.name = "multi_tower",
          .groups =
              [](const config::PipelineConfig& config) {
                std::vector<GroupUse> uses;
                add_uses(config.model_config().multi_tower().towers(), GroupPart::kAll, uses);
                return uses;
              },
          .check =
              [](const config::PipelineConfig& config, const FeatureLayout&) {
                EMBLEM_REQUIRE(config.model_config().multi_tower().towers_size() > 0,
                               "multi_tower has no towers");
              },
          .build = build_multi_tower};
}

ModelKind multi_tower_din_model() {
  return {.name = "multi_tower_din",
          .groups =
              [](const config::PipelineConfig& config) {
                const config::MultiTowerDIN& model = config.model_config().multi_tower_din();
                std::vector<GroupUse> uses;
                add_uses(model.towers(), GroupPart::kAll, uses);
                add_uses(model.din_towers(), GroupPart::kSequence, uses);
                return uses;
              },
          .build = build_multi_tower_din};
}

}  // namespace emblem
