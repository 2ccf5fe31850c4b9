#include "nn/graph.h"

#include "nn/graph_state.h"
#include "nn/ops/dense/concat.h"
#include "nn/ops/dense/elementwise.h"
#include "nn/ops/interaction/interaction.h"

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

Node GraphState::add_node(std::string name, int64_t cols, Kind kind, Space space) {
  EMBLEM_REQUIRE(!prepared, "graph: '", name,
                 "' was added after prepare(); build the whole graph first");
  EMBLEM_REQUIRE(cols > 0, "graph: '", name, "' would have ", cols,
                 " columns; at least 1 is needed");
  if (space != Space{}) sequence(space, name.c_str());
  auto tensor = std::make_unique<Tensor>();
  tensor->name = std::move(name);
  tensor->space = space;
  tensor->cols = tensor->stride = cols;
  tensor->needs_gradient = kind == Kind::kTrainedInput;
  nodes.push_back({std::move(tensor), kind});
  return {static_cast<int>(nodes.size()) - 1};
}

void GraphState::add(std::unique_ptr<Op> op) {
  if (!op->connects_spaces()) {
    const Space space = space_of_inputs(*op);
    if (op->output() != nullptr) op->output()->space = space;
  }
  bool needed = op->has_parameters();
  for (size_t i = 0; i < op->inputs().size(); ++i)
    needed |= op->sends_gradient(i) && op->inputs()[i]->needs_gradient;
  if (op->output() != nullptr) op->output()->needs_gradient = needed;
  ops.push_back(std::move(op));
}

std::string GraphState::next_layer() {
  const int64_t number = layers_in_scope[scope]++;
  return scope.empty() ? cat(number) : cat(scope, ".", number);
}

void Graph::set_scope(std::string scope) { state_->scope = state_->scope_prefix + scope; }

void Graph::set_scope_prefix(std::string prefix) { state_->scope_prefix = std::move(prefix); }

Node Graph::input(std::string name, int64_t cols, Space space) {
  return state_->add_node(std::move(name), cols, GraphState::Kind::kInput, space);
}

Node Graph::trained_input(std::string name, int64_t cols, Space space) {
  return state_->add_node(std::move(name), cols, GraphState::Kind::kTrainedInput, space);
}

Node Graph::embedding_input(std::string name, int64_t cols, Space space) {
  const Node node = trained_input(std::move(name), cols, space);
  state_->nodes.back().fed_narrow = true;
  return node;
}

Node Graph::id_input(std::string name) {
  return state_->add_node(std::move(name), 1, GraphState::Kind::kIds);
}

void Graph::mark_output(Node node) {
  state_->tensor(node, "mark_output");
  state_->nodes[node.id].is_output = true;
}

int64_t Graph::cols(Node node) const { return state_->tensor(node, "cols")->cols; }

void require_vectors(const char* op, const Tensor& x, int64_t dim) {
  EMBLEM_REQUIRE(dim > 0 && x.cols % dim == 0, op, ": '", x.name, "' has ", x.cols,
                 " columns, which do not make whole vectors of dimension ", dim);
}

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

Node Graph::scale_by_sigmoid(Node x, Node z, float factor) {
  Tensor *in = state_->tensor(x, "scale_by_sigmoid"), *gate = state_->tensor(z, "scale_by_sigmoid");
  require_same_cols("scale_by_sigmoid", *in, *gate);
  return state_->add_op("scale_by_sigmoid", in->cols, [&](Tensor* out) {
    return std::make_unique<ScaleBySigmoid>(in, gate, factor, out);
  });
}

Node Graph::row_sum(Node x) {
  Tensor* in = state_->tensor(x, "row_sum");
  return state_->add_op("row_sum", 1,
                        [&](Tensor* out) { return std::make_unique<RowSum>(in, out); });
}

// Sequences that have as many elements in every row.
static std::vector<Space> fixed_spaces(const GraphState& state) {
  std::vector<Space> fixed;
  for (size_t s = 0; s < state.sequences.size(); ++s)
    if (state.sequences[s].fixed_count > 0) fixed.push_back({static_cast<int>(s) + 1});
  return fixed;
}

double Graph::flops_per_row() const {
  double flops = 0.0;
  for (const auto& op : state_->ops) {
    if (op->space() == Space{}) flops += op->flops_per_row();
  }
  for (const Space space : fixed_spaces(*state_)) {
    const auto count = static_cast<double>(state_->sequences[space.id - 1].fixed_count);
    flops += count * flops_per_element(space, count);
  }
  return flops;
}

double Graph::flops_per_element(Space sequence, double mean_length) const {
  double flops = 0.0;
  for (const auto& op : state_->ops) {
    if (op->space() == sequence) flops += op->flops_per_row() + op->flops_per_pair() * mean_length;
  }
  return flops;
}

static int64_t values_in(const GraphState& state, Space space) {
  int64_t values = 0;
  for (const auto& node : state.nodes) {
    if (node.tensor->space == space) values += node.tensor->cols;
  }
  for (const auto& op : state.ops) {
    if (op->space() == space) values += op->kept_values_per_row();
  }
  return values;
}

int64_t Graph::values_per_row() const {
  int64_t values = values_in(*state_, {});
  for (const Space space : fixed_spaces(*state_))
    values += state_->sequences[space.id - 1].fixed_count * values_per_element(space);
  return values;
}
int64_t Graph::values_per_element(Space sequence) const { return values_in(*state_, sequence); }

GraphState& graph_state(Graph& graph) { return *graph.state_; }

static const char* name_of(GraphState::Kind kind) {
  return kind == GraphState::Kind::kInput          ? "input"
         : kind == GraphState::Kind::kTrainedInput ? "trained input"
         : kind == GraphState::Kind::kIds          ? "id input"
                                                   : "computed";
}

std::string Graph::describe() const {
  std::map<const Tensor*, size_t> numbers;
  std::string text;
  for (size_t n = 0; n < state_->nodes.size(); ++n) {
    const Tensor* tensor = state_->nodes[n].tensor.get();
    numbers[tensor] = n;
    if (state_->nodes[n].kind == GraphState::Kind::kComputed) continue;
    text +=
        cat(n, " ", name_of(state_->nodes[n].kind), " '", tensor->name, "' [", tensor->cols, "]\n");
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
