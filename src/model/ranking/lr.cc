#include "model/models.h"

namespace emblem {
namespace {

// A weight per value, and one for all: the bias.
Node build_lr(Graph& graph, ModelInputs& inputs, int64_t classes) {
  require_one_class(classes, "lr");
  graph.set_scope("wide");
  return graph.bias(inputs.wide_sum("wide"));
}

}  // namespace

ModelKind lr_model() {
  return {.name = "lr",
          .groups = [](const config::PipelineConfig&) -> std::vector<GroupUse> {
            return {{"wide", GroupPart::kWide}};
          },
          .build = build_lr};
}

}  // namespace emblem
