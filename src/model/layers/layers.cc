#include "model/layers/layers.h"

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

MlpOptions options_of(const std::string& scope, const config::MLP& mlp) {
  EMBLEM_REQUIRE(!(mlp.use_bn() && mlp.use_ln()), scope,
                 ": use_bn and use_ln exclude each other; set one of them");
  MlpOptions options;
  options.hidden_units.assign(mlp.hidden_units().begin(), mlp.hidden_units().end());
  options.dropout.assign(mlp.dropout_ratio().begin(), mlp.dropout_ratio().end());
  options.activation = activation_from_name(mlp.activation());
  options.norm = mlp.use_bn()   ? MlpOptions::Norm::kBatch
                 : mlp.use_ln() ? MlpOptions::Norm::kLayer
                                : MlpOptions::Norm::kNone;
  options.bias = mlp.bias();
  return options;
}

}  // namespace

Node add_mlp(Graph& graph, const std::string& scope, Node x, const config::MLP& mlp) {
  if (mlp.hidden_units_size() == 0) return x;
  graph.set_scope(scope);
  return graph.mlp(x, options_of(scope, mlp));
}

Node add_din_mlp(Graph& graph, const std::string& scope, Node q, Node s, const config::MLP& mlp) {
  graph.set_scope(scope);
  return graph.din_mlp(q, s, options_of(scope, mlp));
}

std::vector<Node> add_mlp_layers(Graph& graph, const std::string& scope, Node x,
                                 const config::MLP& mlp) {
  graph.set_scope(scope);
  return graph.mlp_layers(x, options_of(scope, mlp));
}

Node add_logits(Graph& graph, const std::string& scope, Node x, int64_t classes) {
  graph.set_scope(scope);
  return graph.linear(x, classes);
}

Node add_logits_without_bias(Graph& graph, const std::string& scope, Node x, int64_t classes) {
  graph.set_scope(scope);
  return graph.linear_without_bias(x, classes);
}

Node add_gate(Graph& graph, const std::string& scope, Node x, const config::MLP& mlp,
              const std::vector<Node>& experts) {
  const Node hidden = add_mlp(graph, scope, x, mlp);
  return graph.mix(graph.softmax(add_logits(graph, scope, hidden, std::ssize(experts))), experts);
}

std::vector<Node> add_experts(Graph& graph, const std::string& scope, Node x, int64_t count,
                              const config::MLP& mlp) {
  EMBLEM_REQUIRE(count > 0, scope, ": there are 0 experts; give at least 1");
  EMBLEM_REQUIRE(mlp.hidden_units_size() > 0, scope, ": the experts have no hidden_units");
  std::vector<Node> experts;
  for (int64_t i = 0; i < count; ++i) experts.push_back(add_mlp(graph, cat(scope, ".", i), x, mlp));
  return experts;
}

// A block multiplies h by a mask made of v.
static Node add_mask_block(Graph& graph, const std::string& scope, Node h, Node v,
                           const config::MaskBlock& block) {
  const int64_t width = graph.cols(h);
  const int64_t aggregation = block.reduction_ratio() != 0.0f
                                  ? static_cast<int64_t>(width * block.reduction_ratio())
                                  : block.aggregation_dim();
  EMBLEM_REQUIRE(aggregation > 0, scope, ": the mask's hidden layer would have ", aggregation,
                 " units; set reduction_ratio or aggregation_dim");
  EMBLEM_REQUIRE(block.hidden_dim() > 0, scope, ": hidden_dim is 0; give at least 1");
  graph.set_scope(scope + ".mask");
  const Node mask = graph.linear(graph.linear(v, aggregation, Activation::kRelu), width);
  graph.set_scope(scope + ".hidden");
  const Node hidden = graph.linear(graph.multiply(h, mask), block.hidden_dim());
  graph.set_scope(scope + ".norm");
  return graph.layer_norm(hidden, Activation::kRelu);
}

Node add_mask_net(Graph& graph, const std::string& scope, Node x,
                  const config::MaskNetModule& module) {
  EMBLEM_REQUIRE(module.n_mask_blocks() > 0, scope, ": n_mask_blocks is 0; give at least 1");
  graph.set_scope(scope + ".norm");
  Node h = graph.layer_norm(x);
  std::vector<Node> blocks;
  for (uint32_t i = 0; i < module.n_mask_blocks(); ++i) {
    const Node before = module.use_parallel() || i == 0 ? h : blocks.back();
    blocks.push_back(
        add_mask_block(graph, cat(scope, ".blocks.", i), before, x, module.mask_block()));
  }
  return add_mlp(graph, scope + ".top",
                 module.use_parallel() ? graph.concat(blocks) : blocks.back(), module.top_mlp());
}

Node add_task_tower(Graph& graph, Node x, const config::TaskTower& tower,
                    const std::string& suffix) {
  const std::string name = tower.tower_name() + suffix;
  return add_logits(graph, "output." + name, add_mlp(graph, "towers." + name, x, tower.mlp()),
                    tower.num_class());
}

void require_units(const config::MLP& mlp, const std::string& path) {
  EMBLEM_REQUIRE(mlp.hidden_units_size() > 0, path, " has no hidden_units");
}

void check_experts(const config::MLP& expert, uint32_t count, const std::string& model) {
  require_units(expert, model + ".expert_mlp");
  EMBLEM_REQUIRE(count > 0, model, ".num_expert is 0, expected at least 1");
}

void check_mask_net(const config::MaskNetModule& module, const std::string& path) {
  EMBLEM_REQUIRE(module.n_mask_blocks() > 0, path, ".n_mask_blocks is 0, expected at least 1");
  EMBLEM_REQUIRE(module.mask_block().hidden_dim() > 0, path,
                 ".mask_block.hidden_dim is 0, expected at least 1");
  EMBLEM_REQUIRE(
      module.mask_block().reduction_ratio() > 0 || module.mask_block().aggregation_dim() > 0, path,
      ".mask_block.reduction_ratio is ", module.mask_block().reduction_ratio(),
      " and aggregation_dim is 0; give one of them");
}

void warn_of_mask_net(const config::MaskNetModule& module, std::vector<std::string>& warnings) {
  if (module.mask_block().has_aggregation_dim() && module.mask_block().reduction_ratio() != 0)
    warnings.push_back(cat("mask_block.aggregation_dim has no effect: reduction_ratio is ",
                           module.mask_block().reduction_ratio(), "; set it to 0"));
}

}  // namespace emblem
