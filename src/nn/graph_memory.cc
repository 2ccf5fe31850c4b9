// The memory of a graph's nodes and ops: allocated first, used once all of it is there.
#include <algorithm>

#include "nn/graph.h"
#include "nn/graph_state.h"

namespace emblem {
namespace {

int64_t align(int64_t bytes) { return (bytes + 63) / 64 * 64; }  // to a cache line

}  // namespace

// Gives each gradient of a space a place; places are used again once the op that computed the node
// has run backward, which keeps them few and in the cache.
void GraphState::plan_gradients(const Context& context, Space space, SpacePlan& plan) const {
  struct Taken {
    int64_t begin, end;
    const Tensor* tensor;
  };
  std::vector<Taken> taken;  // in order of `begin`
  std::map<const Tensor*, SpacePlan::OfNode*> places;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].tensor->space == space) places[nodes[n].tensor.get()] = &plan.nodes[n];
  int64_t bytes = 0;
  const auto take = [&](const Tensor& tensor, SpacePlan::OfNode& place) {
    if (place.gradient_begin >= 0) return;
    const int64_t size = align(tensor.stride * plan.rows * size_of(tensor.dtype));
    int64_t begin = 0;
    auto at = taken.begin();
    for (; at != taken.end() && begin + size > at->begin; ++at) begin = at->end;
    taken.insert(at, {begin, begin + size, &tensor});
    place.gradient_begin = begin;
    bytes = std::max(bytes, begin + size);
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].tensor->space == space && nodes[n].kind == Kind::kTrainedInput)
      take(*nodes[n].tensor, plan.nodes[n]);
  }
  for (const Op* op : backward_ops) {
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      const Tensor* input = op->inputs()[i];
      if (input->needs_gradient && op->sends_gradient(i) && places.contains(input))
        take(*input, *places[input]);
    }
    std::erase_if(taken, [&](const Taken& t) { return t.tensor == op->output(); });
  }
  // Trained inputs that the loss does not depend on stay zero.
  plan.memory.gradients = Buffer<char>::zeros(context, bytes);
}

void GraphState::plan_values(const Context& context, Space space, SpacePlan& plan) const {
  int64_t bytes = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const NodeState& node = nodes[n];
    if (node.tensor->space != space) continue;
    SpacePlan::OfNode& place = plan.nodes[n];
    place.value_begin = bytes;
    const int64_t row_bytes = node.kind == Kind::kIds
                                  ? static_cast<int64_t>(sizeof(int64_t))
                                  : node.tensor->stride * size_of(node.tensor->dtype);
    bytes += align(row_bytes * plan.rows);
    if (node.has_wide_value) place.wide_value = Buffer<float>(device, plan.rows, node.tensor->cols);
    if (node.has_wide_gradient)
      place.wide_gradient = Buffer<float>(device, plan.rows, node.tensor->cols);
  }
  // The padding of rows (Tensor::stride) stays zero.
  plan.memory.values = precision == DType::kF32 ? Buffer<char>(context.device, bytes)
                                                : Buffer<char>::zeros(context, bytes);
}

GraphState::SpacePlan GraphState::plan_space(const Context& context, Space space,
                                             int64_t rows) const {
  SpacePlan plan;
  plan.rows = rows;
  plan.nodes.resize(nodes.size());
  if (purpose == Graph::Purpose::kTraining) plan_gradients(context, space, plan);
  plan_values(context, space, plan);
  if (!(space == Space{})) plan.row_of = Buffer<int32_t>(device, rows);
  return plan;
}

void GraphState::use(Space space, SpacePlan plan) noexcept {
  memory[space.id] = std::move(plan.memory);
  char* const values = memory[space.id].values.data();
  char* const gradients = memory[space.id].gradients.data();
  for (size_t n = 0; n < nodes.size(); ++n) {
    NodeState& node = nodes[n];
    if (node.tensor->space != space) continue;
    SpacePlan::OfNode& place = plan.nodes[n];
    node.tensor->value_data = values + place.value_begin;
    node.tensor->keeps_gradient = place.gradient_begin >= 0;
    if (node.tensor->keeps_gradient) node.tensor->gradient_data = gradients + place.gradient_begin;
    node.wide_value = std::move(place.wide_value);
    node.wide_gradient = std::move(place.wide_gradient);
  }
  if (space == Space{}) return;
  Sequence& sequence = sequences[space.id - 1];
  sequence.capacity = plan.rows;
  sequence.row_of = std::move(plan.row_of);
}

void GraphState::prepare_ops(const Context& context, Space space, int64_t rows) {
  int64_t floats = 0;
  for (const auto& op : ops) {
    const bool here = op->space() == space;
    if (here) op->prepare(device, rows);
    floats = std::max(floats, op->workspace_floats(device, here ? rows : capacity_of(op->space())));
  }
  if (floats > workspace.size() || workspace.data() == nullptr)
    workspace = Buffer<float>(context.device, floats);
}

// Parameters, and what belongs to the batch or to other sequences, stay where they are.
void GraphState::grow(const Context& context, Space space, int64_t elements) {
  context.synchronize();
  recorded.clear();  // ops may change their memory even where there is too little for all
  const int64_t capacity = round_elements(elements + elements / 8);
  SpacePlan plan = plan_space(context, space, capacity);
  prepare_ops(context, space, capacity);
  use(space, std::move(plan));
}

}  // namespace emblem
