#include "nn/matching.h"

#include "nn/graph_state.h"
#include "nn/ops/loss/ranking.h"

namespace emblem {

Node id_input_of(Graph& graph, std::string name, Space items) {
  return graph_state(graph).add_node(std::move(name), 1, GraphState::Kind::kIds, items);
}

Node rank_candidates(Graph& graph, Node users, Node items, const CandidateOptions& options) {
  const char* kind = "rank_candidates";
  GraphState& state = graph_state(graph);
  Tensor *rows = state.tensor(users, kind), *choice = state.tensor(items, kind);
  EMBLEM_REQUIRE(rows->cols == choice->cols, kind, ": '", rows->name, "' has ", rows->cols,
                 " columns and '", choice->name, "' ", choice->cols, "; they must be equal");
  EMBLEM_REQUIRE(rows->space == Space{}, kind, ": '", rows->name, "' belongs to ",
                 state.name_of_space(rows->space), ", but users are rows of the batch");
  EMBLEM_REQUIRE(options.temperature > 0.0f, kind, ": the temperature is ", options.temperature,
                 ", but must be above 0");
  const auto of_items = [&](Node node, GraphState::Kind expected, const char* what) -> Tensor* {
    if (node.id < 0) return nullptr;
    Tensor* tensor = state.tensor(node, kind);
    EMBLEM_REQUIRE(state.nodes[node.id].kind == expected && tensor->cols == 1 &&
                       tensor->space == choice->space,
                   kind, ": '", tensor->name, "' cannot be the ", what,
                   ", which are an input of one column of the items");
    return tensor;
  };
  using Kind = GraphState::Kind;
  const RankCandidates::Facts facts{
      .ids = of_items(options.ids, Kind::kIds, "ids"),
      .corrections = of_items(options.corrections, Kind::kInput, "corrections"),
      .candidate_of = of_items(options.candidate_of, Kind::kIds, "rows of candidates")};
  return state.add_op(kind, kRankColumns, [&](Tensor* out) {
    return std::make_unique<RankCandidates>(rows, choice, facts, options, out);
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
