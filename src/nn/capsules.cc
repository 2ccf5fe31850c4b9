#include "nn/capsules.h"

#include "nn/graph_state.h"
#include "nn/ops/attention/capsules.h"
#include "nn/ops/vectors/regroup.h"

namespace emblem {
namespace {

Tensor* tensor_of_elements(GraphState& state, Node node, const char* used_by) {
  Tensor* tensor = state.tensor(node, used_by);
  EMBLEM_REQUIRE(tensor->space != Space{}, used_by, ": '", tensor->name,
                 "' belongs to the batch; expected a node of a sequence");
  return tensor;
}

int64_t fixed_count(GraphState& state, Space space, const char* used_by) {
  const int64_t count = state.sequence(space, used_by).fixed_count;
  EMBLEM_REQUIRE(count > 0, used_by, ": the rows of ", state.name_of_space(space),
                 " have any number of elements; expected one of add_fixed_sequence()");
  return count;
}

template <class MakeOp>
Node add_across(GraphState& state, const char* name, int64_t cols, Space space, MakeOp&& make) {
  const Node node = state.add_node(name, cols, GraphState::Kind::kComputed, space);
  state.add(make(state.nodes.back().tensor.get()));
  return node;
}

void check_options(const char* used_by, const CapsuleOptions& options) {
  EMBLEM_REQUIRE(options.capsules > 0 && options.capsules <= CapsuleOptions::kMost, used_by, ": ",
                 options.capsules, " capsules; expected 1 to ", CapsuleOptions::kMost);
  EMBLEM_REQUIRE(options.iterations > 0, used_by, ": ", options.iterations,
                 " iterations; expected at least 1");
  EMBLEM_REQUIRE(options.most_elements >= 0, used_by, ": at most ", options.most_elements,
                 " elements; expected at least 1, or 0 for all");
}

}  // namespace

Space add_fixed_sequence(Graph& graph, std::string name, int64_t count) {
  EMBLEM_REQUIRE(count > 0, "graph: sequence '", name, "' would have ", count,
                 " elements in each row; expected at least 1");
  const Space space = graph.add_sequence(std::move(name));
  graph_state(graph).sequences.back().fixed_count = count;
  return space;
}

Node capsules(Graph& graph, Node x, const CapsuleOptions& options) {
  const char* kind = "capsules";
  GraphState& state = graph_state(graph);
  Tensor* in = tensor_of_elements(state, x, kind);
  check_options(kind, options);
  return add_across(state, kind, options.capsules * in->cols, {},
                    [&](Tensor* out) { return std::make_unique<Capsules>(in, options, out); });
}

Node capsule_mask(Graph& graph, Node x, const CapsuleOptions& options, float there, float missing) {
  const char* kind = "capsule_mask";
  GraphState& state = graph_state(graph);
  Tensor* in = tensor_of_elements(state, x, kind);
  check_options(kind, options);
  return add_across(state, kind, options.capsules, {}, [&](Tensor* out) {
    return std::make_unique<CapsuleMask>(in, options, there, missing, out);
  });
}

Node split_vectors(Graph& graph, Node x, Space sequence) {
  const char* kind = "split_vectors";
  GraphState& state = graph_state(graph);
  Tensor* in = state.tensor(x, kind);
  EMBLEM_REQUIRE(in->space == Space{}, kind, ": '", in->name, "' belongs to ",
                 state.name_of_space(in->space), "; expected a node of the batch");
  const int64_t count = fixed_count(state, sequence, kind);
  EMBLEM_REQUIRE(in->cols % count == 0, kind, ": '", in->name, "' has ", in->cols,
                 " columns, which do not make ", count, " vectors");
  return add_across(state, kind, in->cols / count, sequence,
                    [&](Tensor* out) { return std::make_unique<RegroupVectors>(in, out); });
}

Node join_vectors(Graph& graph, Node x) {
  const char* kind = "join_vectors";
  GraphState& state = graph_state(graph);
  Tensor* in = tensor_of_elements(state, x, kind);
  return add_across(state, kind, fixed_count(state, in->space, kind) * in->cols, {},
                    [&](Tensor* out) { return std::make_unique<RegroupVectors>(in, out); });
}

Node first_elements(Graph& graph, Node x) {
  GraphState& state = graph_state(graph);
  Tensor* in = tensor_of_elements(state, x, "first_elements");
  return add_across(state, "first_elements", in->cols, {},
                    [&](Tensor* out) { return std::make_unique<FirstElements>(in, out); });
}

}  // namespace emblem
