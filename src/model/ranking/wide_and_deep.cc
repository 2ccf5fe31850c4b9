#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

Node build_wide_and_deep(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::WideAndDeep& model = inputs.config().model_config().wide_and_deep();
  graph.set_scope("wide");
  const Node wide = inputs.wide_sum("wide");
  const Node deep = add_mlp(graph, "deep", inputs.group("deep"), model.deep());
  if (model.has_final()) {
    return add_logits(graph, "output",
                      add_mlp(graph, "final", graph.concat({wide, deep}), model.final()), classes);
  }
  EMBLEM_REQUIRE(classes == 1, "wide_and_deep without `final` gives one number, but num_class is ",
                 classes, "; add final { hidden_units: ... }");
  return graph.sum({wide, add_logits(graph, "output", deep)});
}

}  // namespace

ModelKind wide_and_deep_model() {
  return {.name = "wide_and_deep",
          .groups = [](const config::PipelineConfig&) -> std::vector<GroupUse> {
            return {{"wide", GroupPart::kWide}, {"deep"}};
          },
          .build = build_wide_and_deep};
}

}  // namespace emblem
