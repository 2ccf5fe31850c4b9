// model/layers/layers.h - layers that models have in common.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "nn/graph.h"

namespace emblem {

// An MLP as configured, its parameters named "scope.i....". Without hidden units it is x itself.
Node add_mlp(Graph& graph, const std::string& scope, Node x, const config::MLP& mlp);
// An MLP over [q, s, q - s, q * s] of each element (Graph::din_features).
Node add_din_mlp(Graph& graph, const std::string& scope, Node q, Node s, const config::MLP& mlp);
// An MLP; the output of each layer.
std::vector<Node> add_mlp_layers(Graph& graph, const std::string& scope, Node x,
                                 const config::MLP& mlp);
// The last layer: a logit per class, named "scope.0....".
Node add_logits(Graph& graph, const std::string& scope, Node x, int64_t classes = 1);
Node add_logits_without_bias(Graph& graph, const std::string& scope, Node x, int64_t classes = 1);

// The experts weighted by softmax(Linear(mlp(x))); the layers of the gate are named "scope.i....".
Node add_gate(Graph& graph, const std::string& scope, Node x, const config::MLP& mlp,
              const std::vector<Node>& experts);

// `count` MLPs over x, named "scope.i.j....".
std::vector<Node> add_experts(Graph& graph, const std::string& scope, Node x, int64_t count,
                              const config::MLP& mlp);

// MaskNet's blocks and top_mlp over x.
Node add_mask_net(Graph& graph, const std::string& scope, Node x,
                  const config::MaskNetModule& module);

// The tower of a task over x. Parameters are named by the tower and the suffix.
Node add_task_tower(Graph& graph, Node x, const config::TaskTower& tower,
                    const std::string& suffix = "");

// ---- checks of their settings: each throws Error that names `path` ----

void require_units(const config::MLP& mlp, const std::string& path);
inline uint32_t last_of(const config::MLP& mlp) {
  return mlp.hidden_units(mlp.hidden_units_size() - 1);
}
// expert_mlp and num_expert of `model`.
void check_experts(const config::MLP& expert, uint32_t count, const std::string& model);
void check_mask_net(const config::MaskNetModule& module, const std::string& path);
// Adds a line where aggregation_dim has no effect.
void warn_of_mask_net(const config::MaskNetModule& module, std::vector<std::string>& warnings);

}  // namespace emblem
