// How the passes of a graph are replayed on a GPU: a batch of a known shape costs one launch.
#include "core/cuda_graph.h"
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/precision.h"

namespace emblem {
namespace {

constexpr size_t kMostShapes = 8;  // a full batch and what is left at the end, and little else

// The default stream cannot.
bool can_be_recorded(const Context& context) { return context.stream != nullptr; }

}  // namespace

void GraphState::publish_step(const Context& context) {
  dispatch(
      context.device, [&] { *step_values.data() = step; },
      [&] { cuda::set_step(context, step, step_values.data()); });
}

GraphState::Recorded& GraphState::recorded_for_shape() {
  for (Recorded& candidate : recorded) {
    if (candidate.rows == rows && candidate.phase == phase) return candidate;
  }
  if (recorded.size() == kMostShapes) recorded.erase(recorded.begin());
  return recorded.emplace_back(Recorded{rows, phase});
}

// The first run of a shape plans its matrix products; the second is recorded while it is enqueued.
// In training a forward is replayed only where its backward will be too: ops remember on the host
// what the last forward that they enqueued was like.
void GraphState::run_forward(const Context& context) {
  dispatch(
      context.device, [&] { enqueue_forward(context); },
      [&] {
        if (!can_be_recorded(context)) return enqueue_forward(context);
        Recorded& shape = recorded_for_shape();
        const bool may_replay = phase == Phase::kEval || shape.backward != nullptr;
        if (shape.forward_runs++ == 0 || (shape.forward != nullptr && !may_replay))
          return enqueue_forward(context);
        if (shape.forward == nullptr)
          shape.forward =
              std::make_shared<cuda::CudaGraph>(context, [&] { enqueue_forward(context); });
        shape.forward->launch(context);
      });
}

void GraphState::run_backward(const Context& context) {
  dispatch(
      context.device, [&] { enqueue_backward(context); },
      [&] {
        if (!can_be_recorded(context)) return enqueue_backward(context);
        Recorded& shape = recorded_for_shape();
        if (shape.backward_runs++ == 0) return enqueue_backward(context);
        if (shape.backward == nullptr)
          shape.backward =
              std::make_shared<cuda::CudaGraph>(context, [&] { enqueue_backward(context); });
        shape.backward->launch(context);
      });
}

}  // namespace emblem
