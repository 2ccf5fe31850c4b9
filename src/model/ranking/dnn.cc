#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

Node build_dnn(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::DNN& model = inputs.config().model_config().dnn();
  const Node features = inputs.group(only_group_or(inputs.config().model_config(), "deep"));
  return add_logits(graph, "output", add_mlp(graph, "deep", features, model.deep()), classes);
}

}  // namespace

ModelKind dnn_model() {
  return {.name = "dnn",
          .groups = [](const config::PipelineConfig& config) -> std::vector<GroupUse> {
            return {{only_group_or(config.model_config(), "deep")}};
          },
          .build = build_dnn};
}

}  // namespace emblem
