// WuKong: layers that mix vectors linearly and by their products.
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/check/check_model.h"
#include "model/layers/layers.h"
#include "model/models.h"

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

Node build_wukong(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::WuKong& model = inputs.config().model_config().wukong();
  const config::ModelConfig& config = inputs.config().model_config();
  const std::string sparse_group = only_group_or(config, "sparse");
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

// The vectors of the sparse group and the output of dense_mlp are rows of one matrix.
void check_wukong(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const config::ModelConfig& model = config.model_config();
  const config::WuKong& wukong = model.wukong();
  EMBLEM_REQUIRE(wukong.wukong_layers_size() > 0, "wukong has no wukong_layers");
  for (int i = 0; i < wukong.wukong_layers_size(); ++i) {
    const config::WuKongLayer& layer = wukong.wukong_layers(i);
    EMBLEM_REQUIRE(layer.lcb_feature_num() > 0 && layer.fmb_feature_num() > 0,
                   "wukong.wukong_layers[", i, "].",
                   layer.lcb_feature_num() == 0 ? "lcb_feature_num" : "fmb_feature_num",
                   " is 0, expected at least 1");
  }
  const config::FeatureGroupConfig& sparse = *find_group(model, only_group_or(model, "sparse"));
  EMBLEM_REQUIRE(sparse.feature_names_size() > 0, "feature group \"",
                 printable(sparse.group_name()), "\" has no feature_names");
  const int64_t dim = width_of(layout.find(sparse.feature_names(0)));
  for (const std::string& name : sparse.feature_names())
    EMBLEM_REQUIRE(width_of(layout.find(name)) == dim, "feature group \"",
                   printable(sparse.group_name()), "\" needs one embedding_dim, but \"",
                   printable(sparse.feature_names(0)), "\" has ", dim, " and \"", printable(name),
                   "\" has ", width_of(layout.find(name)));
  const bool has_dense = model.feature_groups_size() > 1 && has_group(model, "dense");
  if (!has_dense) return;
  EMBLEM_REQUIRE(wukong.dense_mlp().hidden_units_size() > 0,
                 "wukong reads feature group \"dense\", but has no dense_mlp");
  EMBLEM_REQUIRE(last_of(wukong.dense_mlp()) == dim, "wukong.dense_mlp ends in ",
                 last_of(wukong.dense_mlp()), " units, but the features of group \"",
                 printable(sparse.group_name()), "\" have embedding_dim ", dim,
                 "; make them equal");
}

}  // namespace

ModelKind wukong_model() {
  return {.name = "wukong",
          .groups = reads_sparse_and_dense,
          .check = check_wukong,
          .build = build_wukong};
}

}  // namespace emblem
