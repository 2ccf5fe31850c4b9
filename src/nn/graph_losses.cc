// Building: what training minimizes.
#include <algorithm>
#include <functional>

#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/ops/distillation.h"
#include "nn/ops/jrc_loss.h"
#include "nn/ops/loss.h"
#include "nn/ops/variational_dropout.h"

namespace emblem {
namespace {

// A column of labels or weights, which are inputs.
Tensor* target_tensor(GraphState& state, const char* kind, const char* what, Node node,
                      int64_t column) {
  Tensor* tensor = state.tensor(node, kind);
  EMBLEM_REQUIRE(state.nodes[node.id].kind == GraphState::Kind::kInput, kind, ": the ", what,
                 " are '", tensor->name, "', which is not an input; ", what, " are constants");
  EMBLEM_REQUIRE(column >= 0 && column < tensor->cols, kind, ": column ", column, " of the ", what,
                 " '", tensor->name, "', which have ", tensor->cols);
  return tensor;
}

void require_cols(const char* kind, const Tensor& logits, int64_t cols) {
  EMBLEM_REQUIRE(logits.cols == cols, kind, ": '", logits.name, "' has ", logits.cols,
                 " columns, but ", cols, " is needed");
}

void require_smoothing(const char* kind, float smoothing) {
  EMBLEM_REQUIRE(smoothing >= 0.0f && smoothing < 1.0f, kind, ": label_smoothing is ", smoothing,
                 ", but must be at least 0 and below 1");
}

// The tensors that a target names; null where it names none.
struct TargetTensors {
  Tensor *labels = nullptr, *weights = nullptr;
};
TargetTensors target_tensors(GraphState& state, const char* kind, const Graph::Target& target) {
  TargetTensors tensors;
  if (target.labels.id >= 0)
    tensors.labels = target_tensor(state, kind, "labels", target.labels, target.label);
  if (target.indicator >= 0) target_tensor(state, kind, "labels", target.labels, target.indicator);
  if (target.weights.id >= 0)
    tensors.weights = target_tensor(state, kind, "weights", target.weights, target.weight);
  return tensors;
}

template <class Formula>
void add_row_loss(GraphState& state, Formula formula, Node logits, const Graph::Target& target) {
  const char* kind = Formula::kKind;
  Tensor* x = state.tensor(logits, kind);
  const auto [labels, weights] = target_tensors(state, kind, target);
  EMBLEM_REQUIRE(labels != nullptr, kind, ": no labels were given");
  if (!target.training_only) state.nodes[logits.id].is_output = true;
  const int64_t slot = state.add_loss(target.name.empty() ? kind : target.name);
  state.add(std::make_unique<RowLoss<Formula>>(formula, x, labels, weights, target, slot));
}

}  // namespace

int64_t GraphState::add_loss(std::string name) {
  loss_names.push_back(std::move(name));
  return static_cast<int64_t>(loss_names.size()) - 1;
}

void Graph::binary_cross_entropy(Node logits, const Target& target, float label_smoothing) {
  const losses::BinaryCrossEntropy formula{label_smoothing};
  require_cols(formula.kKind, *state_->tensor(logits, formula.kKind), 1);
  require_smoothing(formula.kKind, label_smoothing);
  add_row_loss(*state_, formula, logits, target);
}

void Graph::binary_cross_entropy(Node logits, Node labels, Node weights, float label_smoothing) {
  Target target;
  target.labels = labels;
  target.weights = weights;
  binary_cross_entropy(logits, target, label_smoothing);
}

void Graph::softmax_cross_entropy(Node logits, const Target& target, float label_smoothing) {
  const losses::SoftmaxCrossEntropy formula{label_smoothing};
  const Tensor& x = *state_->tensor(logits, formula.kKind);
  EMBLEM_REQUIRE(x.cols > 1, formula.kKind, ": '", x.name,
                 "' has 1 column, but one for each class is needed, at least 2");
  require_smoothing(formula.kKind, label_smoothing);
  add_row_loss(*state_, formula, logits, target);
}

void Graph::focal_loss(Node logits, const Target& target, float gamma, float alpha) {
  const losses::Focal formula{gamma, alpha};
  require_cols(formula.kKind, *state_->tensor(logits, formula.kKind), 1);
  EMBLEM_REQUIRE(gamma >= 0.0f, formula.kKind, ": gamma is ", gamma, ", but must be at least 0");
  EMBLEM_REQUIRE(alpha > 0.0f && alpha < 1.0f, formula.kKind, ": alpha is ", alpha,
                 ", but must be above 0 and below 1");
  add_row_loss(*state_, formula, logits, target);
}

void Graph::l2_loss(Node values, const Target& target, float mean, float deviation) {
  const losses::SquaredError formula{mean, deviation};
  require_cols(formula.kKind, *state_->tensor(values, formula.kKind), 1);
  EMBLEM_REQUIRE(deviation > 0.0f, formula.kKind, ": the deviation is ", deviation,
                 ", but must be above 0");
  add_row_loss(*state_, formula, values, target);
}

void Graph::jrc_loss(Node logits, Node sessions, const Target& target, float alpha) {
  const char* kind = "jrc_loss";
  Tensor *x = state_->tensor(logits, kind), *ids = state_->tensor(sessions, kind);
  require_cols(kind, *x, 2);
  EMBLEM_REQUIRE(state_->nodes[sessions.id].kind == GraphState::Kind::kIds, kind, ": sessions '",
                 ids->name, "' are not an id input");
  EMBLEM_REQUIRE(alpha >= 0.0f && alpha <= 1.0f, kind, ": alpha is ", alpha,
                 ", but must be from 0 to 1");
  const auto [labels, weights] = target_tensors(*state_, kind, target);
  EMBLEM_REQUIRE(labels != nullptr, kind, ": no labels were given");
  if (!target.training_only) state_->nodes[logits.id].is_output = true;
  const int64_t slot = state_->add_loss(target.name.empty() ? kind : target.name);
  state_->add(std::make_unique<JrcLoss>(x, ids, labels, weights, target, alpha, slot));
}

void Graph::distillation_loss(Node x, Node y, Similarity similarity, const Target& target) {
  const char* kind = "distillation_loss";
  Tensor *left = state_->tensor(x, kind), *right = state_->tensor(y, kind);
  EMBLEM_REQUIRE(left->cols == right->cols, kind, ": '", left->name, "' has ", left->cols,
                 " columns and '", right->name, "' ", right->cols, "; they must be equal");
  const auto [labels, weights] = target_tensors(*state_, kind, target);
  Target in_training = target;
  in_training.training_only = true;
  const int64_t slot = state_->add_loss(target.name.empty() ? kind : target.name);
  state_->add(std::make_unique<DistillationLoss>(left, right, labels, weights,
                                                 std::move(in_training), similarity, slot));
}

Node Graph::variational_dropout(Node x, const std::vector<int64_t>& begins, float lambda,
                                std::string loss) {
  Tensor* in = state_->tensor(x, "variational_dropout");
  EMBLEM_REQUIRE(!begins.empty() && begins.front() == 0 && begins.back() < in->cols &&
                     std::is_sorted(begins.begin(), begins.end(), std::less_equal<>()),
                 "variational_dropout: the ranges of columns of '", in->name,
                 "' must begin at 0, rise, and end below ", in->cols);
  const int64_t slot = state_->add_loss(std::move(loss));
  const std::string name = state_->next_layer();
  const uint64_t stream = state_->ops.size();
  return state_->add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<VariationalDropout>(in, begins, lambda, stream, slot, out, name,
                                                state_->parameters);
  });
}

}  // namespace emblem
