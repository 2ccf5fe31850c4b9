// RocketLaunching: a small network that predicts learns from a large one, the booster, which exists
// in training only. Tables and the shared layers learn from the booster alone.
#include <algorithm>

#include "core/text/text.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

using Similarity = Graph::Similarity;

// Each layer of the light network learns from the first layer of the booster that is as wide.
void add_hints(Graph& graph, const ModelInputs& inputs, const config::RocketLaunching& model,
               const HeadSpec& light, const std::vector<Node>& light_layers,
               const std::vector<Node>& booster_layers) {
  const auto& widths = model.booster_mlp().hidden_units();
  for (int i = 0; i < model.light_mlp().hidden_units_size(); ++i) {
    const auto same = std::find(widths.begin(), widths.end(), model.light_mlp().hidden_units(i));
    if (same == widths.end()) continue;
    const auto j = static_cast<size_t>(same - widths.begin());
    Graph::Target target = target_of(inputs, light);
    target.name = cat("similarity_", i, "_", j);
    graph.distillation_loss(light_layers[static_cast<size_t>(i)], booster_layers[j],
                            model.feature_distillation_function() == config::COSINE
                                ? Similarity::kCosine
                                : Similarity::kEuclid,
                            target);
  }
}

HeadLogits build_rocket_launching(Graph& graph, ModelInputs& inputs,
                                  const std::vector<HeadSpec>& heads) {
  const config::RocketLaunching& model = inputs.config().model_config().rocket_launching();
  const Node x = add_mlp(graph, "shared", inputs.first_group(), model.share_mlp());
  const Node stopped = graph.stop_gradient(x);
  const int64_t classes = heads.at(0).classes;
  const auto light_layers = add_mlp_layers(graph, "light", stopped, model.light_mlp());
  const Node light = add_logits(graph, "output.light", light_layers.back(), classes);
  const auto booster_layers = add_mlp_layers(graph, "booster", x, model.booster_mlp());
  const Node booster = add_logits(graph, "output.booster", booster_layers.back(), classes);
  HeadLogits logits;
  for (const HeadSpec& head : heads) {
    logits.push_back({head.in_training_only ? booster : light});
    if (head.in_training_only) continue;
    Graph::Target hint = target_of(inputs, head);
    hint.name = "hint_l2_loss";
    graph.distillation_loss(light, booster, Similarity::kSquaredError, hint);
    if (model.feature_based_distillation())
      add_hints(graph, inputs, model, head, light_layers, booster_layers);
  }
  return logits;
}

}  // namespace

// Its heads are those that towers_of makes of it: light and booster.
ModelKind rocket_launching_model() {
  return {.name = "rocket_launching",
          .groups = reads_first_group,
          .check =
              [](const config::PipelineConfig& config, const FeatureLayout&) {
                const config::RocketLaunching& model = config.model_config().rocket_launching();
                require_units(model.booster_mlp(), "rocket_launching.booster_mlp");
                require_units(model.light_mlp(), "rocket_launching.light_mlp");
              },
          .build_heads = build_rocket_launching};
}

}  // namespace emblem
