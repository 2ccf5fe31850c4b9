#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

Node build_mask_net(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::MaskNet& model = inputs.config().model_config().mask_net();
  const Node hidden =
      add_mask_net(graph, "mask_net", inputs.first_group(), model.mask_net_module());
  return add_logits_without_bias(graph, "output", hidden, classes);
}

}  // namespace

ModelKind mask_net_model() {
  return {.name = "mask_net",
          .groups = reads_first_group,
          .check =
              [](const config::PipelineConfig& config, const FeatureLayout&) {
                check_mask_net(config.model_config().mask_net().mask_net_module(),
                               "mask_net.mask_net_module");
              },
          .warn =
              [](const config::ModelConfig& model, std::vector<std::string>& warnings) {
                warn_of_mask_net(model.mask_net().mask_net_module(), warnings);
              },
          .build = build_mask_net};
}

}  // namespace emblem
