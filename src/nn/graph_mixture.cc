// Building: what gates, towers and experts are made of.
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/ops/mix.h"
#include "nn/ops/row_ops.h"

namespace emblem {
namespace {

// Parts that have equally many columns.
std::vector<Tensor*> equal_parts(GraphState& state, const char* op,
                                 const std::vector<Node>& parts) {
  EMBLEM_REQUIRE(!parts.empty(), op, ": no parts were given; at least 1 is needed");
  std::vector<Tensor*> tensors;
  for (const Node part : parts) {
    tensors.push_back(state.tensor(part, op));
    const Tensor &first = *tensors.front(), &last = *tensors.back();
    EMBLEM_REQUIRE(first.cols == last.cols, op, ": '", first.name, "' has ", first.cols,
                   " columns and '", last.name, "' ", last.cols, "; they must be equal");
  }
  return tensors;
}

}  // namespace

Node Graph::stop_gradient(Node x) {
  Tensor* in = state_->tensor(x, "stop_gradient");
  return state_->add_op("stop_gradient", in->cols,
                        [&](Tensor* out) { return std::make_unique<StopGradient>(in, out); });
}

Node Graph::softmax(Node x) {
  Tensor* in = state_->tensor(x, "softmax");
  return state_->add_op("softmax", in->cols,
                        [&](Tensor* out) { return std::make_unique<Softmax>(in, out); });
}

Node Graph::normalize(Node x) {
  Tensor* in = state_->tensor(x, "normalize");
  return state_->add_op("normalize", in->cols,
                        [&](Tensor* out) { return std::make_unique<Normalize>(in, out); });
}

Node Graph::mix(Node gate, const std::vector<Node>& experts) {
  std::vector<Tensor*> inputs = equal_parts(*state_, "mix", experts);
  Tensor* weights = state_->tensor(gate, "mix");
  EMBLEM_REQUIRE(weights->cols == static_cast<int64_t>(experts.size()), "mix: the gate '",
                 weights->name, "' has ", weights->cols, " columns for ", experts.size(),
                 " experts; they must be equal");
  const int64_t cols = inputs[0]->cols;
  inputs.insert(inputs.begin(), weights);
  return state_->add_op("mix", cols,
                        [&](Tensor* out) { return std::make_unique<Mix>(inputs, out); });
}

Node Graph::select(const std::vector<Node>& parts, Node labels, int64_t column) {
  std::vector<Tensor*> inputs = equal_parts(*state_, "select", parts);
  const int64_t cols = inputs[0]->cols;
  inputs.push_back(state_->tensor(labels, "select"));
  EMBLEM_REQUIRE(state_->nodes[labels.id].kind == GraphState::Kind::kInput, "select: the labels '",
                 inputs.back()->name, "' are not an input");
  EMBLEM_REQUIRE(column >= 0 && column < inputs.back()->cols, "select: column ", column,
                 " of the labels '", inputs.back()->name, "', which have ", inputs.back()->cols);
  return state_->add_op("select", cols,
                        [&](Tensor* out) { return std::make_unique<Select>(inputs, column, out); });
}

}  // namespace emblem
