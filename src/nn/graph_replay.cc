// How the passes of a graph are replayed on a GPU: a batch of a known shape costs one launch.
#include <algorithm>

#include "core/device/cuda_graph.h"
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/precision.h"

namespace emblem {
namespace {

// A full batch and what is left at the end; times the rounded numbers of elements.
constexpr size_t kMostShapes = 8, kMostShapesOfSequences = 48;

// The default stream cannot.
bool can_be_recorded(const Context& context) { return context.stream != nullptr; }

}  // namespace

void GraphState::publish_step(const Context& context) {
  dispatch(
      context.device, [&] { *step_values.data() = step; },
      [&] { cuda::set_step(context, step, step_values.data()); });
}

// The last of `recorded`, which is in the order of use.
GraphState::Recorded& GraphState::recorded_for_shape() {
  std::vector<int64_t> shape;
  for (const Space space : spaces()) shape.push_back(rows_of(space));
  const auto found = std::find_if(recorded.begin(), recorded.end(), [&](const Recorded& r) {
    return r.rows == shape && r.phase == phase;
  });
  if (found != recorded.end()) {
    std::rotate(found, found + 1, recorded.end());
    return recorded.back();
  }
  const size_t most = sequences.empty() ? kMostShapes : kMostShapesOfSequences;
  if (recorded.size() == most) recorded.erase(recorded.begin());
  return recorded.emplace_back(Recorded{std::move(shape), phase});
}

// The first run of a shape plans its matrix products; the second is recorded while it is enqueued.
// In training a forward is replayed only where its backward will be too: ops remember on the host
// what the last forward that they enqueued was like. A run that fails is not counted.
void GraphState::run_forward(const Context& context) {
  dispatch(
      context.device, [&] { enqueue_forward(context); },
      [&] {
        if (!can_be_recorded(context)) return enqueue_forward(context);
        Recorded& shape = recorded_for_shape();
        const bool may_replay = phase == Phase::kEval || shape.backward != nullptr;
        if (shape.forward_runs == 0 || (shape.forward != nullptr && !may_replay))
          enqueue_forward(context);
        else
          cuda::replay(context, shape.forward, [&] { enqueue_forward(context); });
        ++shape.forward_runs;
      });
}

void GraphState::run_backward(const Context& context) {
  dispatch(
      context.device, [&] { enqueue_backward(context); },
      [&] {
        if (!can_be_recorded(context)) return enqueue_backward(context);
        Recorded& shape = recorded_for_shape();
        if (shape.backward_runs == 0)
          enqueue_backward(context);
        else
          cuda::replay(context, shape.backward, [&] { enqueue_backward(context); });
        ++shape.backward_runs;
      });
}

}  // namespace emblem
