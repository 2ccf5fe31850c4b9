#include "nn/graph.h"

#include "nn/graph_state.h"
#include "nn/ops/activation.h"
#include "nn/ops/bias.h"
#include "nn/ops/concat.h"
#include "nn/ops/cross.h"
#include "nn/ops/dropout.h"
#include "nn/ops/elementwise.h"
#include "nn/ops/interaction.h"
#include "nn/ops/linear.h"
#include "nn/ops/loss.h"
#include "nn/ops/norm.h"

namespace emblem {

Graph::Graph(uint64_t seed) : state_(std::make_unique<GraphState>(seed)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Tensor* GraphState::tensor(Node node, const char* used_by) {
  EMBLEM_REQUIRE(node.id >= 0 && node.id < static_cast<int>(nodes.size()), "graph: ", used_by,
                 " was given node ", node.id, ", but the graph has nodes 0 to ",
                 static_cast<int>(nodes.size()) - 1);
  return nodes[node.id].tensor.get();
}

Node GraphState::add_node(std::string name, int64_t cols, Kind kind) {
  EMBLEM_REQUIRE(!prepared, "graph: '", name,
                 "' was added after prepare(); build the whole graph first");
  EMBLEM_REQUIRE(cols > 0, "graph: '", name, "' would have ", cols,
                 " columns; at least 1 is needed");
  auto tensor = std::make_unique<Tensor>();
  tensor->name = std::move(name);
  tensor->cols = tensor->stride = cols;
  tensor->needs_gradient = kind == Kind::kTrainedInput;
  nodes.push_back({std::move(tensor), kind});
  return {static_cast<int>(nodes.size()) - 1};
}

void GraphState::add(std::unique_ptr<Op> op) {
  bool needed = op->has_parameters();
  for (const Tensor* input : op->inputs()) needed |= input->needs_gradient;
  if (op->output() != nullptr) op->output()->needs_gradient = needed;
  ops.push_back(std::move(op));
}

std::string GraphState::next_layer() {
  const int64_t number = layers_in_scope[scope]++;
  return scope.empty() ? cat(number) : cat(scope, ".", number);
}

void Graph::set_scope(std::string scope) { state_->scope = std::move(scope); }

Node Graph::input(std::string name, int64_t cols) {
  return state_->add_node(std::move(name), cols, GraphState::Kind::kInput);
}

Node Graph::trained_input(std::string name, int64_t cols) {
  return state_->add_node(std::move(name), cols, GraphState::Kind::kTrainedInput);
}

Node Graph::embedding_input(std::string name, int64_t cols) {
  const Node node = trained_input(std::move(name), cols);
  state_->nodes.back().fed_narrow = true;
  return node;
}

int64_t Graph::cols(Node node) const { return state_->tensor(node, "cols")->cols; }

namespace {

// The op's own activation where it can go back through it, else none: a separate op follows.
Activation fused(Activation activation) {
  return invertible_from_output(activation) ? activation : Activation::kNone;
}

}  // namespace

static Node add_linear(GraphState& state, Node x, int64_t units, Bias bias, Activation activation,
                       const std::string& name) {
  Tensor* in = state.tensor(x, "linear");
  return state.add_op(name, units, [&](Tensor* out) {
    return std::make_unique<Linear>(in, out, bias, activation, name, state.parameters);
  });
}

Node Graph::linear(Node x, int64_t units, Activation activation) {
  const Node out =
      add_linear(*state_, x, units, Bias::kTrained, fused(activation), state_->next_layer());
  return fused(activation) == activation ? out : this->activation(out, activation);
}

Node Graph::linear_without_bias(Node x, int64_t units) {
  return add_linear(*state_, x, units, Bias::kNone, Activation::kNone, state_->next_layer());
}

Node Graph::bias(Node x) {
  Tensor* in = state_->tensor(x, "bias");
  const std::string name = state_->next_layer();
  return state_->add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<BiasOp>(in, out, name, state_->parameters);
  });
}

static Node add_norm(GraphState& state, Node x, MlpOptions::Norm norm, Activation activation,
                     const std::string& name) {
  Tensor* in = state.tensor(x, "a normalization");
  return state.add_op(name, in->cols, [&](Tensor* out) -> std::unique_ptr<Op> {
    if (norm == MlpOptions::Norm::kLayer)
      return std::make_unique<LayerNorm>(in, out, activation, name, state.parameters);
    return std::make_unique<BatchNorm>(in, out, activation, name, state.parameters,
                                       state.statistics);
  });
}

Node Graph::batch_norm(Node x, Activation activation) {
  const Node out =
      add_norm(*state_, x, MlpOptions::Norm::kBatch, fused(activation), state_->next_layer());
  return fused(activation) == activation ? out : this->activation(out, activation);
}

Node Graph::layer_norm(Node x, Activation activation) {
  const Node out =
      add_norm(*state_, x, MlpOptions::Norm::kLayer, fused(activation), state_->next_layer());
  return fused(activation) == activation ? out : this->activation(out, activation);
}

Node Graph::mlp(Node x, const MlpOptions& options) {
  const size_t layers = options.hidden_units.size();
  EMBLEM_REQUIRE(options.dropout.size() <= 1 || options.dropout.size() == layers, "mlp '",
                 state_->scope, "': ", options.dropout.size(), " dropout ratios for ", layers,
                 " layers; give none, one for all, or one a layer");
  using Norm = MlpOptions::Norm;
  for (size_t layer = 0; layer < layers; ++layer) {
    const std::string name = state_->next_layer();
    const Activation last = fused(options.activation);
    const Bias bias = options.bias && options.norm != Norm::kBatch ? Bias::kTrained : Bias::kNone;
    x = add_linear(*state_, x, options.hidden_units[layer], bias,
                   options.norm == Norm::kNone ? last : Activation::kNone, name);
    if (options.norm != Norm::kNone) x = add_norm(*state_, x, options.norm, last, name + ".norm");
    if (last != options.activation) x = activation(x, options.activation);
    if (!options.dropout.empty())
      x = dropout(x, options.dropout[options.dropout.size() == 1 ? 0 : layer]);
  }
  return x;
}

Node Graph::activation(Node x, Activation activation) {
  Tensor* in = state_->tensor(x, "activation");
  if (activation == Activation::kNone) return x;
  return state_->add_op(name_of(activation), in->cols, [&](Tensor* out) {
    return std::make_unique<ActivationOp>(in, activation, out);
  });
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

static void require_vectors(const char* op, const Tensor& x, int64_t dim) {
  EMBLEM_REQUIRE(dim > 0 && x.cols % dim == 0, op, ": '", x.name, "' has ", x.cols,
                 " columns, which do not make whole vectors of dimension ", dim);
}

Node Graph::dot_interaction(Node x, int64_t dim) { return dlrm_interaction({}, x, dim); }

Node Graph::dlrm_interaction(Node first, Node x, int64_t dim) {
  Tensor* in = state_->tensor(x, "interaction");
  Tensor* head = first.id < 0 ? nullptr : state_->tensor(first, "interaction");
  require_vectors("interaction", *in, dim);
  EMBLEM_REQUIRE(head == nullptr || head->cols == dim, "interaction: the first vector, '",
                 head->name, "', has ", head->cols, " columns, but the others have dimension ", dim,
                 "; make the last layer before it ", dim, " wide");
  const int64_t vectors = in->cols / dim + (head == nullptr ? 0 : 1);
  const int64_t cols = vectors * (vectors - 1) / 2 + (head == nullptr ? 0 : dim);
  return state_->add_op("interaction", cols, [&](Tensor* out) {
    return std::make_unique<Interaction>(head, in, dim, out);
  });
}

Node Graph::fm(Node x, int64_t dim) {
  Tensor* in = state_->tensor(x, "fm");
  require_vectors("fm", *in, dim);
  return state_->add_op(
      "fm", dim, [&](Tensor* out) { return std::make_unique<FactorizationMachine>(in, dim, out); });
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

Node Graph::concat(const std::vector<Node>& parts) {
  EMBLEM_REQUIRE(!parts.empty(), "concat: no parts were given; at least 1 is needed");
  std::vector<Tensor*> inputs;
  int64_t cols = 0;
  for (const Node part : parts) {
    inputs.push_back(state_->tensor(part, "concat"));
    cols += inputs.back()->cols;
  }
  if (parts.size() == 1) return parts[0];
  return state_->add_op("concat", cols,
                        [&](Tensor* out) { return std::make_unique<Concat>(inputs, out); });
}

Node Graph::slice(Node x, int64_t begin, int64_t end) {
  Tensor* in = state_->tensor(x, "slice");
  EMBLEM_REQUIRE(0 <= begin && begin < end && end <= in->cols, "slice: columns [", begin, ", ", end,
                 ") of '", in->name, "', which has ", in->cols);
  return state_->add_op("slice", end - begin,
                        [&](Tensor* out) { return std::make_unique<Slice>(in, begin, out); });
}

static void require_same_cols(const char* op, const Tensor& a, const Tensor& b) {
  EMBLEM_REQUIRE(a.cols == b.cols, op, ": '", a.name, "' has ", a.cols, " columns and '", b.name,
                 "' ", b.cols, "; they must be equal");
}

Node Graph::sum(const std::vector<Node>& parts) {
  EMBLEM_REQUIRE(!parts.empty(), "sum: no parts were given; at least 1 is needed");
  std::vector<Tensor*> inputs;
  for (const Node part : parts) {
    inputs.push_back(state_->tensor(part, "sum"));
    require_same_cols("sum", *inputs.front(), *inputs.back());
  }
  if (parts.size() == 1) return parts[0];
  return state_->add_op("sum", inputs[0]->cols,
                        [&](Tensor* out) { return std::make_unique<Sum>(inputs, out); });
}

Node Graph::multiply(Node a, Node b) {
  Tensor *left = state_->tensor(a, "multiply"), *right = state_->tensor(b, "multiply");
  require_same_cols("multiply", *left, *right);
  return state_->add_op("multiply", left->cols,
                        [&](Tensor* out) { return std::make_unique<Multiply>(left, right, out); });
}

Node Graph::scale(Node x, float factor) {
  Tensor* in = state_->tensor(x, "scale");
  return state_->add_op("scale", in->cols,
                        [&](Tensor* out) { return std::make_unique<Scale>(in, factor, out); });
}

Node Graph::row_sum(Node x) {
  Tensor* in = state_->tensor(x, "row_sum");
  return state_->add_op("row_sum", 1,
                        [&](Tensor* out) { return std::make_unique<RowSum>(in, out); });
}

void Graph::binary_cross_entropy(Node logits, Node labels, Node weights, float label_smoothing) {
  Tensor *x = state_->tensor(logits, "binary_cross_entropy"),
         *y = state_->tensor(labels, "binary_cross_entropy");
  Tensor* w = weights.id < 0 ? nullptr : state_->tensor(weights, "binary_cross_entropy");
  for (const Tensor* tensor : {x, y, w}) {
    EMBLEM_REQUIRE(tensor == nullptr || tensor->cols == 1, "binary_cross_entropy: '", tensor->name,
                   "' has ", tensor->cols, " columns, but logits, labels and weights have 1");
  }
  EMBLEM_REQUIRE(!y->needs_gradient && (w == nullptr || !w->needs_gradient),
                 "binary_cross_entropy: labels and weights are constants, but '",
                 (y->needs_gradient ? y : w)->name, "' is trained");
  EMBLEM_REQUIRE(label_smoothing >= 0.0f && label_smoothing < 1.0f,
                 "binary_cross_entropy: label_smoothing is ", label_smoothing,
                 ", but must be at least 0 and below 1");
  auto loss = std::make_unique<BinaryCrossEntropy>(x, y, w, label_smoothing);
  state_->losses.push_back(loss.get());
  state_->add(std::move(loss));
}

double Graph::flops_per_row() const {
  double flops = 0.0;
  for (const auto& op : state_->ops) flops += op->flops_per_row();
  return flops;
}

int64_t Graph::values_per_row() const {
  int64_t values = 0;
  for (const auto& node : state_->nodes) values += node.tensor->cols;
  return values;
}

GraphState& graph_state(Graph& graph) { return *graph.state_; }

std::string Graph::describe() const {
  std::map<const Tensor*, size_t> numbers;
  std::string text;
  for (size_t n = 0; n < state_->nodes.size(); ++n) {
    const Tensor* tensor = state_->nodes[n].tensor.get();
    numbers[tensor] = n;
    if (state_->nodes[n].kind == GraphState::Kind::kComputed) continue;
    text +=
        cat(n, " ", state_->nodes[n].kind == GraphState::Kind::kInput ? "input" : "trained input",
            " '", tensor->name, "' [", tensor->cols, "]\n");
  }
  for (const auto& op : state_->ops) {
    if (op->output() != nullptr) text += cat(numbers[op->output()], " ");
    text += op->kind();
    if (op->has_parameters()) text += cat(" '", op->output()->name, "'");
    if (op->output() != nullptr) text += cat(" [", op->output()->cols, "]");
    for (const Tensor* input : op->inputs())
      text += cat(input == op->inputs()[0] ? " of " : ", ", numbers[input]);
    text += "\n";
  }
  return text;
}

}  // namespace emblem
