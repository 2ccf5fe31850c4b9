#include "nn/matching.h"

#include "nn/graph_state.h"
#include "nn/ops/loss/ranking.h"

namespace emblem {

Node rank_candidates(Graph& graph, Node users, Node items, Candidates candidates,
                     float temperature) {
  const char* kind = "rank_candidates";
  GraphState& state = graph_state(graph);
  Tensor *rows = state.tensor(users, kind), *choice = state.tensor(items, kind);
  EMBLEM_REQUIRE(rows->cols == choice->cols, kind, ": '", rows->name, "' has ", rows->cols,
                 " columns and '", choice->name, "' ", choice->cols, "; they must be equal");
  EMBLEM_REQUIRE(rows->space == Space{}, kind, ": '", rows->name, "' belongs to ",
                 state.name_of_space(rows->space), ", but users are rows of the batch");
  EMBLEM_REQUIRE(temperature > 0.0f, kind, ": the temperature is ", temperature,
                 ", but must be above 0");
  return state.add_op(kind, kRankColumns, [&](Tensor* out) {
    return std::make_unique<RankCandidates>(rows, choice, candidates, temperature, out);
  });
}

void minimize_mean(Graph& graph, Node x, const Graph::Target& target) {
  const char* kind = "minimize_mean";
  GraphState& state = graph_state(graph);
  Tensor* in = state.tensor(x, kind);
  const auto constant = [&](Node node, const char* what) -> Tensor* {
    if (node.id < 0) return nullptr;
    Tensor* tensor = state.tensor(node, kind);
    EMBLEM_REQUIRE(state.nodes[node.id].kind == GraphState::Kind::kInput, kind, ": the ", what,
                   " are '", tensor->name, "', which is not an input; ", what, " are constants");
    return tensor;
  };
  Tensor *labels = constant(target.labels, "labels"),
         *weights = constant(target.weights, "weights");
  state.nodes[x.id].is_output = true;
  const int64_t slot = state.add_loss(target.name.empty() ? kind : target.name);
  state.add(std::make_unique<MeanLoss>(in, labels, weights, target, slot));
}

}  // namespace emblem
