#include "train/state/dense_values.h"

#include <algorithm>

#include "core/memory/host_copy.h"

namespace emblem {
namespace {

constexpr std::string_view kTrainingPrefix = "optimizer.";

// "optimizer.state" of the main optimizer, "optimizer.part_0.state" of the first part.
std::string state_tensor(size_t part) {
  return part == 0 ? "optimizer.state" : cat("optimizer.part_", part - 1, ".state");
}
std::string accumulated_tensor(const Parameter& parameter) {
  return "optimizer.accumulated." + parameter.name;
}

// Calls body with the states of each parameter, one after the other. The state of the only
// optimizer has the padding that parameters have; that of several has none.
template <class Body>
void for_each_state(Learner& learner, std::span<float> state, Body&& body) {
  if (learner.dense_parts().size() > 1) return body(state);
  const size_t size = learner.model().graph().parameters().size();
  for (; !state.empty(); state = state.subspan(size)) {
    for (const Parameter& parameter : learner.model().graph().parameter_list())
      body(part_of(state.first(size), parameter));
  }
}

bool has_tensor(const SafetensorsFile& file, const std::string& name) {
  const std::vector<TensorRef>& tensors = file.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const TensorRef& tensor) { return tensor.name == name; });
}

// Stores values under the names that name_of gives to parameters.
template <class NameOf>
void add_parameters(Graph& graph, const std::vector<float>& values, NameOf name_of,
                    std::vector<TensorRef>& tensors) {
  if (values.empty()) return;
  for (const Parameter& parameter : graph.parameter_list())
    tensors.push_back(TensorRef::of<float>(name_of(parameter), {parameter.rows, parameter.cols},
                                           part_of<const float>(values, parameter)));
}

template <class NameOf>
void read_parameters(const SafetensorsFile& file, Graph& graph, NameOf name_of,
                     std::vector<float>& values) {
  values.clear();
  const auto parameters = graph.parameter_list();
  if (parameters.empty() || !has_tensor(file, name_of(parameters.front()))) return;
  values.resize(graph.parameters().size());
  for (const Parameter& parameter : parameters)
    file.read<float>(name_of(parameter), part_of<float>(values, parameter));
}

}  // namespace

DenseValues read_dense(Learner& learner) {
  const Context& context = learner.context();
  Graph& graph = learner.model().graph();
  DenseValues values;
  values.parameters = to_host(context, graph.parameters());
  values.statistics = to_host(context, graph.statistics());
  for (Learner::DensePart& part : learner.dense_parts()) {
    std::vector<float> state = to_host(context, part.optimizer.state());
    std::vector<float>& packed = values.optimizer_states.emplace_back();
    for_each_state(learner, state, [&](std::span<const float> of_parameter) {
      packed.insert(packed.end(), of_parameter.begin(), of_parameter.end());
    });
  }
  if (DenseAverage* average = learner.average(); average != nullptr && average->started())
    values.average = to_host(context, average->values());
  if (learner.accumulates_now()) values.accumulated = to_host(context, learner.accumulated());
  return values;
}

void write_dense(Learner& learner, const DenseValues& values) {
  const Context& context = learner.context();
  Graph& graph = learner.model().graph();
  to_device(context, values.parameters, graph.parameters());
  to_device(context, values.statistics, graph.statistics());
  for (size_t i = 0; i < learner.dense_parts().size(); ++i) {
    DenseOptimizer& optimizer = learner.dense_parts()[i].optimizer;
    std::vector<float> state = to_host(context, optimizer.state());
    auto from = values.optimizer_states[i].begin();
    for_each_state(learner, state, [&](std::span<float> part) {
      std::copy_n(from, part.size(), part.begin());
      from += static_cast<std::ptrdiff_t>(part.size());
    });
    to_device(context, state, optimizer.state());
  }
  if (DenseAverage* average = learner.average()) {
    average->set_started(!values.average.empty());
    to_device(context, values.average.empty() ? values.parameters : values.average,
              average->values());
  }
  if (!values.accumulated.empty()) learner.restore_accumulated(values.accumulated);
}

std::vector<TensorRef> dense_tensors(Learner& learner, const DenseValues& values) {
  Graph& graph = learner.model().graph();
  std::vector<TensorRef> tensors;
  add_parameters(
      graph, values.parameters, [](const Parameter& one) { return one.name; }, tensors);
  for (const Parameter& statistic : graph.statistic_list()) {
    tensors.push_back(TensorRef::of<float>(statistic_tensor(statistic),
                                           {statistic.rows, statistic.cols},
                                           part_of<const float>(values.statistics, statistic)));
  }
  for (size_t i = 0; i < values.optimizer_states.size(); ++i) {
    const std::vector<float>& state = values.optimizer_states[i];
    if (state.empty()) continue;
    const int64_t states = learner.dense_parts()[i].optimizer.state().rows;
    tensors.push_back(TensorRef::of<float>(state_tensor(i),
                                           {states, static_cast<int64_t>(state.size()) / states},
                                           std::span<const float>(state)));
  }
  add_parameters(graph, values.average, average_tensor, tensors);
  add_parameters(graph, values.accumulated, accumulated_tensor, tensors);
  return tensors;
}

void read_training_state(const SafetensorsFile& file, Learner& learner, DenseValues& values) {
  for (size_t i = 0; i < values.optimizer_states.size(); ++i)
    if (!values.optimizer_states[i].empty())
      file.read<float>(state_tensor(i), values.optimizer_states[i]);
  Graph& graph = learner.model().graph();
  if (learner.average() != nullptr) read_parameters(file, graph, average_tensor, values.average);
  if (learner.accumulated().size() > 0)
    read_parameters(file, graph, accumulated_tensor, values.accumulated);
}

std::string statistic_tensor(const Parameter& statistic) { return "statistics." + statistic.name; }

std::string average_tensor(const Parameter& parameter) { return "optimizer.ema." + parameter.name; }

bool is_training_tensor(std::string_view name) { return name.starts_with(kTrainingPrefix); }

}  // namespace emblem
