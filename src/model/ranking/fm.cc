#include "model/models.h"

namespace emblem {
namespace {

// "fm" if it exists, else "deep".
std::string pairs_group_of(const config::ModelConfig& model) {
  return has_group(model, "fm") ? "fm" : "deep";
}

Node build_fm(Graph& graph, ModelInputs& inputs, int64_t classes) {
  require_one_class(classes, "fm");
  graph.set_scope("wide");
  const Node wide = graph.bias(inputs.wide_sum("wide"));
  const Vectors pairs = inputs.vectors(pairs_group_of(inputs.config().model_config()));
  return graph.sum({wide, graph.row_sum(graph.fm(pairs.node, pairs.dim))});
}

}  // namespace

ModelKind fm_model() {
  return {.name = "fm",
          .groups = [](const config::PipelineConfig& config) -> std::vector<GroupUse> {
            return {{"wide", GroupPart::kWide},
                    {pairs_group_of(config.model_config()), GroupPart::kVectors, "wide"}};
          },
          .build = build_fm};
}

}  // namespace emblem
