// WuKong: layers that mix vectors linearly and by their products.
#include "config/groups.h"
#include "core/text.h"
#include "emblem/error.h"
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {
namespace {

Vectors add_layer(Graph& graph, const std::string& scope, const Vectors& x,
                  const config::WuKongLayer& layer) {
  const int64_t linear = layer.lcb_feature_num(), products = layer.fmb_feature_num();
  EMBLEM_REQUIRE(linear > 0 && products > 0, scope, ": lcb_feature_num is ", linear,
                 " and fmb_feature_num ", products, "; give at least 1 of each");
  graph.set_scope(scope + ".products");
  const Node pairs = graph.compressed_products(x.node, x.dim, layer.compressed_feature_num());
  graph.set_scope(scope + ".norm");
  const Node hidden =
      add_mlp(graph, scope + ".mlp", graph.layer_norm(pairs), layer.feature_num_mlp());
  const Node made = add_logits(graph, scope + ".vectors", hidden, products * x.dim);
  graph.set_scope(scope + ".linear");
  const Node mixed = graph.mix_vectors(x.node, x.dim, linear);
  graph.set_scope(scope + ".residual");
  const Node residual =
      x.count == linear + products ? x.node : graph.mix_vectors(x.node, x.dim, linear + products);
  graph.set_scope(scope + ".output_norm");
  const Node sum = graph.sum({graph.concat({made, mixed}), residual});
  return {graph.layer_norm_vectors(sum, x.dim), linear + products, x.dim};
}

}  // namespace

Node build_wukong(Graph& graph, ModelInputs& inputs, const config::WuKong& model, int64_t classes) {
  const config::ModelConfig& config = inputs.config().model_config();
  const std::string sparse_group = sparse_group_of(config);
  Vectors x = inputs.vectors(sparse_group);
  if (has_group(config, "dense") && sparse_group != "dense") {
    const Node dense = add_mlp(graph, "bottom", inputs.group("dense"), model.dense_mlp());
    EMBLEM_REQUIRE(graph.cols(dense) == x.dim, "wukong: dense_mlp ends in ", graph.cols(dense),
                   " units, but the embeddings have dimension ", x.dim,
                   "; make the last of dense_mlp.hidden_units ", x.dim);
    x = {graph.concat({dense, x.node}), x.count + 1, x.dim};
  }
  for (int i = 0; i < model.wukong_layers_size(); ++i)
    x = add_layer(graph, cat("layers.", i), x, model.wukong_layers(i));
  return add_logits(graph, "output", add_mlp(graph, "final", x.node, model.final()), classes);
}

}  // namespace emblem
