#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

Node build_dlrm(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::DLRM& model = inputs.config().model_config().dlrm();
  const config::ModelConfig& config = inputs.config().model_config();
  const std::string sparse_group = only_group_or(config, "sparse");
  const Vectors sparse = inputs.vectors(sparse_group);
  Node bottom;
  if (has_group(config, "dense") && sparse_group != "dense") {
    bottom = add_mlp(graph, "bottom", inputs.group("dense"), model.dense_mlp());
    EMBLEM_REQUIRE(graph.cols(bottom) == sparse.dim, "dlrm: dense_mlp ends in ", graph.cols(bottom),
                   " units, but the embeddings have dimension ", sparse.dim,
                   "; make the last of dense_mlp.hidden_units ", sparse.dim);
  }
  if (model.has_cross()) {
    graph.set_scope("cross");
    const Node joined = bottom.id >= 0 ? graph.concat({bottom, sparse.node}) : sparse.node;
    const Node cross = graph.cross_v2(joined, static_cast<int>(model.cross().cross_num()),
                                      model.cross().low_rank());
    return add_logits(graph, "output", add_mlp(graph, "top", cross, model.final()), classes);
  }
  const Node pairs = graph.dlrm_interaction(bottom, sparse.node, sparse.dim);
  const Node joined = model.arch_with_sparse() ? graph.concat({pairs, sparse.node}) : pairs;
  return add_logits(graph, "output", add_mlp(graph, "top", joined, model.final()), classes);
}

}  // namespace

ModelKind dlrm_model() {
  return {.name = "dlrm", .groups = reads_sparse_and_dense, .build = build_dlrm};
}

}  // namespace emblem
