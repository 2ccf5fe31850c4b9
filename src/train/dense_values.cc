#include "train/dense_values.h"

#include <algorithm>

#include "core/host_copy.h"

namespace emblem {
namespace {

// Calls body with the states of each parameter, one after the other.
template <class Body>
void for_each_state(Learner& learner, std::span<float> state, Body&& body) {
  const size_t size = learner.model().graph().parameters().size();
  for (; !state.empty(); state = state.subspan(size)) {
    for (const Parameter& parameter : learner.model().graph().parameter_list())
      body(part_of(state.first(size), parameter));
  }
}

}  // namespace

DenseValues read_dense(Learner& learner) {
  const Context& context = learner.context();
  Graph& graph = learner.model().graph();
  DenseValues values{
      to_host(context, graph.parameters()), to_host(context, graph.statistics()), {}};
  std::vector<float> state = to_host(context, learner.dense_optimizer().state());
  for_each_state(learner, state, [&](std::span<const float> part) {
    values.optimizer_state.insert(values.optimizer_state.end(), part.begin(), part.end());
  });
  return values;
}

void write_dense(Learner& learner, const DenseValues& values) {
  const Context& context = learner.context();
  Graph& graph = learner.model().graph();
  to_device(context, values.parameters, graph.parameters());
  to_device(context, values.statistics, graph.statistics());
  std::vector<float> state = to_host(context, learner.dense_optimizer().state());
  auto from = values.optimizer_state.begin();
  for_each_state(learner, state, [&](std::span<float> part) {
    std::copy_n(from, part.size(), part.begin());
    from += static_cast<std::ptrdiff_t>(part.size());
  });
  to_device(context, state, learner.dense_optimizer().state());
}

std::vector<TensorRef> dense_tensors(Learner& learner, const DenseValues& values) {
  Graph& graph = learner.model().graph();
  std::vector<TensorRef> tensors;
  for (const Parameter& parameter : graph.parameter_list()) {
    tensors.push_back(TensorRef::of<float>(parameter.name, {parameter.rows, parameter.cols},
                                           part_of<const float>(values.parameters, parameter)));
  }
  for (const Parameter& statistic : graph.statistic_list()) {
    tensors.push_back(TensorRef::of<float>(statistic_tensor(statistic),
                                           {statistic.rows, statistic.cols},
                                           part_of<const float>(values.statistics, statistic)));
  }
  if (!values.optimizer_state.empty()) {
    const int64_t states = learner.dense_optimizer().state().rows;
    const auto size = static_cast<int64_t>(values.optimizer_state.size());
    tensors.push_back(TensorRef::of<float>(kOptimizerStateTensor, {states, size / states},
                                           std::span<const float>(values.optimizer_state)));
  }
  return tensors;
}

std::string statistic_tensor(const Parameter& statistic) { return "statistics." + statistic.name; }

}  // namespace emblem
