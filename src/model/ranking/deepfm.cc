#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

Node build_deepfm(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::DeepFM& model = inputs.config().model_config().deepfm();
  graph.set_scope("wide");
  const Node wide = inputs.wide_sum("wide");
  const Vectors vectors =
      inputs.vectors(has_group(inputs.config().model_config(), "fm") ? "fm" : "deep");
  const Node pairs = graph.fm(vectors.node, vectors.dim);
  const Node deep = add_mlp(graph, "deep", inputs.group("deep"), model.deep());
  if (model.has_final()) {
    return add_logits(graph, "output",
                      add_mlp(graph, "final", graph.concat({wide, pairs, deep}), model.final()),
                      classes);
  }
  EMBLEM_REQUIRE(classes == 1, "deepfm without `final` gives one number, but num_class is ",
                 classes, "; add final { hidden_units: ... }");
  return graph.sum({wide, graph.row_sum(pairs), add_logits(graph, "output", deep)});
}

}  // namespace

ModelKind deepfm_model() {
  return {.name = "deepfm",
          .groups = [](const config::PipelineConfig& config) -> std::vector<GroupUse> {
            std::vector<GroupUse> uses = {{"wide", GroupPart::kWide}, {"deep"}};
            if (has_group(config.model_config(), "fm")) uses.push_back({"fm", GroupPart::kVectors});
            return uses;
          },
          .build = build_deepfm};
}

}  // namespace emblem
