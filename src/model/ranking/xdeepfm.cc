// xDeepFM: products of the wide vectors, layer by layer, and an MLP side by side.
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

Node build_xdeepfm(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::xDeepFM& model = inputs.config().model_config().xdeepfm();
  const Vectors wide = inputs.vectors("wide");
  std::vector<Node> parts;
  Node x = wide.node;
  for (const uint32_t units : model.cin().cin_layer_size()) {
    graph.set_scope("cin");
    x = graph.cin_layer(x, wide.node, wide.dim, units);
    parts.push_back(graph.vector_sums(x, wide.dim));
  }
  parts.push_back(add_mlp(graph, "deep", inputs.group("deep"), model.deep()));
  return add_logits(graph, "output", add_mlp(graph, "final", graph.concat(parts), model.final()),
                    classes);
}

void check_xdeepfm(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const config::ModelConfig& model = config.model_config();
  EMBLEM_REQUIRE(model.xdeepfm().cin().cin_layer_size_size() > 0,
                 "xdeepfm.cin has no cin_layer_size");
  const config::FeatureGroupConfig& wide = *find_group(model, "wide");
  EMBLEM_REQUIRE(wide.group_type() == config::WIDE,
                 "feature group \"wide\" must have group_type: WIDE for xdeepfm");
  for (const std::string& name : wide.feature_names())
    EMBLEM_REQUIRE(layout.find(name).kind == FeatureKind::kSparse, "feature \"", printable(name),
                   "\" is numeric, but xdeepfm reads only embeddings of group \"wide\"; give it "
                   "boundaries, or move it to group \"deep\"");
}

}  // namespace

ModelKind xdeepfm_model() {
  return {.name = "xdeepfm",
          .groups = [](const config::PipelineConfig&) -> std::vector<GroupUse> {
            return {{"wide", GroupPart::kWideVectors}, {"deep"}};
          },
          .check = check_xdeepfm,
          .build = build_xdeepfm};
}

}  // namespace emblem
