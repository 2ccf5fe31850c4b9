// Building: layers with parameters of their own, activations and dropout.
#include "nn/graph.h"
#include "nn/graph_sequence.h"
#include "nn/graph_state.h"
#include "nn/ops/bias.h"
#include "nn/ops/cross.h"
#include "nn/ops/dropout.h"
#include "nn/ops/elementwise.h"
#include "nn/ops/linear.h"
#include "nn/ops/norm.h"
#include "nn/ops/trained_activation.h"

namespace emblem {
namespace {

// The op's own activation where it can go back through it, else none: a separate op follows.
Activation fused(Activation activation) {
  return can_be_fused(activation) ? activation : Activation::kNone;
}

Node add_linear(GraphState& state, Node x, int64_t units, Bias bias, Activation activation,
                const std::string& name, const Graph::LinearInitial& initial = {}) {
  Tensor* in = state.tensor(x, "linear");
  return state.add_op(name, units, [&](Tensor* out) {
    return std::make_unique<Linear>(in, out, bias, activation, name, state.parameters, initial);
  });
}

Node add_norm(GraphState& state, Node x, MlpOptions::Norm norm, Activation activation,
              const std::string& name) {
  Tensor* in = state.tensor(x, "a normalization");
  return state.add_op(name, in->cols, [&](Tensor* out) -> std::unique_ptr<Op> {
    if (norm == MlpOptions::Norm::kLayer)
      return std::make_unique<LayerNorm>(in, in->cols, out, activation, name, state.parameters);
    return std::make_unique<BatchNorm>(in, out, activation, name, BatchNorm::Affine::kTrained,
                                       state.parameters, state.statistics);
  });
}

Node add_dice(GraphState& state, Node x, const std::string& name) {
  Tensor* in = state.tensor(x, "Dice");
  const Node normalized = state.add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<BatchNorm>(in, out, Activation::kNone, name, BatchNorm::Affine::kNone,
                                       state.parameters, state.statistics);
  });
  Tensor* gate = state.tensor(normalized, "Dice");
  return state.add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<DiceGate>(in, gate, out, name, state.parameters);
  });
}

// `name` is for the parameters of those that have any.
Node add_activation(GraphState& state, Node x, Activation activation, const std::string& name) {
  Tensor* in = state.tensor(x, "activation");
  if (activation == Activation::kNone) return x;
  if (activation.kind == Activation::kDice) return add_dice(state, x, name);
  return state.add_op(name_of(activation), in->cols, [&](Tensor* out) -> std::unique_ptr<Op> {
    if (activation.kind == Activation::kPrelu)
      return std::make_unique<Prelu>(in, out, name, activation.first, state.parameters);
    return std::make_unique<ActivationOp>(in, activation, out);
  });
}

// The activation of a layer whose op did not apply it.
Node finish(GraphState& state, Node x, Activation activation, const std::string& layer) {
  if (can_be_fused(activation)) return x;
  return add_activation(state, x, activation, layer + ".activation");
}

}  // namespace

Node Graph::linear(Node x, int64_t units, Activation activation, const LinearInitial& initial) {
  const std::string name = state_->next_layer();
  return finish(*state_,
                add_linear(*state_, x, units, Bias::kTrained, fused(activation), name, initial),
                activation, name);
}

Node Graph::linear_without_bias(Node x, int64_t units, std::optional<Initial> initial) {
  return add_linear(*state_, x, units, Bias::kNone, Activation::kNone, state_->next_layer(),
                    {initial, {}});
}

Node Graph::bias(Node x) {
  Tensor* in = state_->tensor(x, "bias");
  const std::string name = state_->next_layer();
  return state_->add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<BiasOp>(in, out, name, state_->parameters);
  });
}

Node Graph::batch_norm(Node x, Activation activation) {
  const std::string name = state_->next_layer();
  return finish(*state_, add_norm(*state_, x, MlpOptions::Norm::kBatch, fused(activation), name),
                activation, name);
}

Node Graph::layer_norm(Node x, Activation activation) {
  const std::string name = state_->next_layer();
  return finish(*state_, add_norm(*state_, x, MlpOptions::Norm::kLayer, fused(activation), name),
                activation, name);
}

// A layer of an MLP, whose linear part is linear(bias, activation, name).
template <class MakeLinear>
static Node add_mlp_layer(Graph& graph, GraphState& state, const MlpOptions& options, size_t layer,
                          MakeLinear&& linear) {
  using Norm = MlpOptions::Norm;
  const std::string name = state.next_layer();
  const Activation last = fused(options.activation);
  const Bias bias = options.bias && options.norm != Norm::kBatch ? Bias::kTrained : Bias::kNone;
  Node x = linear(bias, options.norm == Norm::kNone ? last : Activation::kNone, name);
  if (options.norm != Norm::kNone) x = add_norm(state, x, options.norm, last, name + ".norm");
  x = finish(state, x, options.activation, name);
  if (options.dropout.empty()) return x;
  return graph.dropout(x, options.dropout[options.dropout.size() == 1 ? 0 : layer]);
}

static void check_dropout(const GraphState& state, const MlpOptions& options) {
  const size_t layers = options.hidden_units.size();
  EMBLEM_REQUIRE(options.dropout.size() <= 1 || options.dropout.size() == layers, "mlp '",
                 state.scope, "': ", options.dropout.size(), " dropout ratios for ", layers,
                 " layers; give none, one for all, or one a layer");
}

std::vector<Node> Graph::mlp_layers(Node x, const MlpOptions& options) {
  check_dropout(*state_, options);
  std::vector<Node> outputs;
  for (size_t layer = 0; layer < options.hidden_units.size(); ++layer) {
    x = add_mlp_layer(*this, *state_, options, layer,
                      [&](Bias bias, Activation activation, const std::string& name) {
                        return add_linear(*state_, x, options.hidden_units[layer], bias, activation,
                                          name);
                      });
    outputs.push_back(x);
  }
  return outputs;
}

Node Graph::din_mlp(Node q, Node s, const MlpOptions& options) {
  if (options.hidden_units.empty()) return din_features(q, s);
  check_dropout(*state_, options);
  const Node first = add_mlp_layer(
      *this, *state_, options, 0, [&](Bias bias, Activation activation, const std::string& name) {
        return add_din_linear(*state_, q, s, options.hidden_units[0], bias, activation, name);
      });
  MlpOptions others = options;
  others.hidden_units.erase(others.hidden_units.begin());
  if (others.dropout.size() > 1) others.dropout.erase(others.dropout.begin());
  return mlp(first, others);
}

Node Graph::mlp(Node x, const MlpOptions& options) {
  const std::vector<Node> layers = mlp_layers(x, options);
  return layers.empty() ? x : layers.back();
}

Node Graph::activation(Node x, Activation activation) {
  return add_activation(*state_, x, activation,
                        activation.is_trained() ? state_->next_layer() : "");
}

Node Graph::sigmoid(Node x) { return activation(x, Activation::kSigmoid); }

Node Graph::dropout(Node x, float ratio) {
  Tensor* in = state_->tensor(x, "dropout");
  EMBLEM_REQUIRE(ratio >= 0.0f && ratio < 1.0f, "dropout: the ratio is ", ratio,
                 ", but must be at least 0 and below 1");
  if (ratio == 0.0f) return x;
  const uint64_t stream = state_->ops.size();
  return state_->add_op("dropout", in->cols, [&](Tensor* out) {
    return std::make_unique<Dropout>(in, ratio, stream, out);
  });
}

Node Graph::cross_v1(Node x0, int layers) {
  Tensor* first = state_->tensor(x0, "cross");
  Node x = x0;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = state_->next_layer();
    Tensor* in = state_->tensor(x, "cross");
    x = state_->add_op(name, first->cols, [&](Tensor* out) {
      return std::make_unique<CrossLayer>(first, in, out, name, state_->parameters);
    });
  }
  return x;
}

Node Graph::cross_v2(Node x0, int layers, int64_t rank) {
  Tensor* first = state_->tensor(x0, "cross");
  EMBLEM_REQUIRE(rank >= 0, "cross: the rank is ", rank, ", but must be 0 (a full matrix) or more");
  Node x = x0;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = state_->next_layer();
    Node z = x;
    if (rank > 0) z = add_linear(*state_, z, rank, Bias::kNone, Activation::kNone, name + ".v");
    z = add_linear(*state_, z, first->cols, Bias::kTrained, Activation::kNone,
                   rank > 0 ? name + ".u" : name);
    Tensor *in = state_->tensor(x, "cross"), *product = state_->tensor(z, "cross");
    x = state_->add_op(name, first->cols, [&](Tensor* out) {
      return std::make_unique<CrossCombine>(first, product, in, out);
    });
  }
  return x;
}

}  // namespace emblem
