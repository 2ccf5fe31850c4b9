// Building: what training minimizes.
#include <algorithm>
#include <functional>

#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/matching.h"
#include "nn/ops/dense/variational_dropout.h"
#include "nn/ops/loss/distillation.h"
#include "nn/ops/loss/jrc_loss.h"
#include "nn/ops/loss/lambdarank_loss.h"
#include "nn/ops/loss/loss.h"

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

// The columns of what a loss learns.
void require_cols(const AnyLoss& loss, const Tensor& logits) {
  const bool by_class = head_of(loss) == HeadKind::kClass;
  const int64_t cols = by_class ? classes_of(loss) : 1;
  EMBLEM_REQUIRE(cols == 0 || logits.cols == cols, name_of(loss), ": '", logits.name, "' has ",
                 logits.cols, " columns, but ", cols, " is needed");
  EMBLEM_REQUIRE(!by_class || logits.cols > 1, name_of(loss), ": '", logits.name,
                 "' has 1 column, but one for each class is needed, at least 2");
}

// The ids of the sessions whose rows a loss compares.
Tensor* session_tensor(GraphState& state, const char* kind, Node sessions) {
  Tensor* ids = state.tensor(sessions, kind);
  EMBLEM_REQUIRE(state.nodes[sessions.id].kind == GraphState::Kind::kIds, kind, ": sessions '",
                 ids->name, "' are not an id input");
  return ids;
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

}  // namespace

int64_t GraphState::add_loss(std::string name) {
  loss_names.push_back(std::move(name));
  return static_cast<int64_t>(loss_names.size()) - 1;
}

void Graph::minimize(const AnyLoss& loss, Node logits, const Target& target, Node sessions) {
  const char* kind = name_of(loss);
  Tensor* x = state_->tensor(logits, kind);
  require_cols(loss, *x);
  std::visit([&](const auto& one) { one.check(kind); }, loss);
  const auto [labels, weights] = target_tensors(*state_, kind, target);
  EMBLEM_REQUIRE(labels != nullptr, kind, ": no labels were given");
  if (!target.training_only) state_->nodes[logits.id].is_output = true;
  const auto slot = [&] { return state_->add_loss(target.name.empty() ? kind : target.name); };
  if (const auto* jrc = std::get_if<losses::JrcLoss>(&loss)) {
    Tensor* ids = session_tensor(*state_, kind, sessions);
    state_->add(std::make_unique<JrcLoss>(x, ids, labels, weights, target, jrc->alpha, slot()));
    return;
  }
  if (std::holds_alternative<losses::LambdaRankLoss>(loss)) {
    Tensor* ids = session_tensor(*state_, kind, sessions);
    state_->add(std::make_unique<LambdaRankLoss>(x, ids, labels, weights, target, slot()));
    return;
  }
  state_->add(std::make_unique<RowLoss>(loss, x, labels, weights, target, slot()));
}

static void add_distillation(GraphState& state, Node x, Node y, Graph::Similarity similarity,
                             Graph::Target target, Reduction reduction, const char* kind) {
  Tensor *left = state.tensor(x, kind), *right = state.tensor(y, kind);
  EMBLEM_REQUIRE(left->cols == right->cols, kind, ": '", left->name, "' has ", left->cols,
                 " columns and '", right->name, "' ", right->cols, "; they must be equal");
  const auto [labels, weights] = target_tensors(state, kind, target);
  target.training_only = true;
  const int64_t slot = state.add_loss(target.name.empty() ? kind : target.name);
  state.add(std::make_unique<DistillationLoss>(left, right, labels, weights, std::move(target),
                                               similarity, reduction, slot));
}

void Graph::distillation_loss(Node x, Node y, Similarity similarity, const Target& target) {
  add_distillation(*state_, x, y, similarity, target, Reduction::kMean, "distillation_loss");
}

void mimicry_loss(Graph& graph, Node x, Node y, const Graph::Target& target) {
  Graph::Target of_rows = target;
  of_rows.factor *= static_cast<float>(graph.cols(x));
  add_distillation(graph_state(graph), x, y, Graph::Similarity::kSquaredError, of_rows,
                   target.weights.id < 0 ? Reduction::kSum : Reduction::kMean, "mimicry_loss");
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
