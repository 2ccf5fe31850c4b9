// How a graph computes in 16 bits: what is fed and read stays in fp32.
#include <algorithm>
#include <utility>

#include "core/memory/pinned.h"
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/precision.h"

namespace emblem {

// Labels and weights of losses, and results that losses read in fp32, are in it; all else that ops
// read and write is narrow.
void GraphState::plan_types() {
  if (precision == DType::kF32) return;
  std::map<const Tensor*, NodeState*> states;
  for (NodeState& node : nodes) {
    states[node.tensor.get()] = &node;
    if (node.kind != Kind::kIds) node.tensor->dtype = precision;
    node.has_wide_value = node.kind == Kind::kComputed && node.is_output;
  }
  for (const auto& op : ops) {
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      if (!op->reads_fp32(i)) continue;
      op->inputs()[i]->dtype = DType::kF32;
      NodeState& input = *states[op->inputs()[i]];
      if (input.kind == Kind::kComputed) input.has_wide_value = false;
    }
  }
  for (const auto& op : ops) {
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      const NodeState& input = *states[op->inputs()[i]];
      EMBLEM_REQUIRE(
          op->reads_fp32(i) || input.kind == Kind::kIds || input.tensor->dtype == precision,
          "graph: '", input.tensor->name, "' is a label or weight and the input of a layer too, ",
          "which ", name_of(precision), " does not support");
    }
  }
  for (NodeState& node : nodes) {
    if (node.kind == Kind::kComputed || node.tensor->dtype == DType::kF32 || node.fed_narrow)
      continue;
    // Inference writes embeddings in 16 bits, if at all.
    if (node.kind == Kind::kTrainedInput && purpose == Graph::Purpose::kInference) continue;
    node.has_wide_value = true;
    node.has_wide_gradient = node.kind == Kind::kTrainedInput;
  }
}

// Rows that begin at odd places are padded with zeros for matrix products, where all
// ops that read and write them know of it.
void GraphState::plan_strides() {
  for (const NodeState& node : nodes) node.tensor->stride = node.tensor->cols;
  if (precision == DType::kF32 || purpose == Graph::Purpose::kInference) return;
  for (NodeState& node : nodes) {
    Tensor* tensor = node.tensor.get();
    bool padded =
        tensor->dtype != DType::kF32 && node.kind != Kind::kTrainedInput && !node.is_output;
    for (const auto& op : ops) {
      if (op->output() == tensor) padded &= op->writes_padded_rows();
      for (const Tensor* input : op->inputs()) padded &= input != tensor || op->reads_padded_rows();
    }
    if (padded) tensor->stride = aligned(tensor->cols);
  }
  const auto make_alike = [](const Op& op) {
    std::vector<Tensor*> all = {op.output()};
    for (Tensor* input : op.inputs())
      if (input->cols == op.output()->cols) all.push_back(input);
    bool changed = false;
    const auto shortest =
        *std::min_element(all.begin(), all.end(),
                          [](const Tensor* a, const Tensor* b) { return a->stride < b->stride; });
    for (Tensor* tensor : all)
      changed |= std::exchange(tensor->stride, shortest->stride) != shortest->stride;
    return changed;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& op : ops) changed |= op->pads_all_alike() && make_alike(*op);
  }
}

void GraphState::narrow_inputs(const Context& context) {
  if (precision == DType::kF32) return;
  dispatch(
      context.device, [] {},
      [&] {
        cuda::narrow_values(context, parameter_values.data(), precision, narrow_parameters.data(),
                            parameter_values.size());
        for (NodeState& node : nodes) {
          if (node.kind == Kind::kComputed || !node.has_wide_value) continue;
          const int64_t rows = rows_of(node.tensor->space);
          cuda::narrow_matrix(context, {node.wide_value.data(), rows, node.tensor->cols}, precision,
                              node.tensor->value_data, rows, node.tensor->stride);
        }
      });
}

void GraphState::widen_outputs(const Context& context) {
  if (precision == DType::kF32) return;
  dispatch(
      context.device, [] {},
      [&] {
        for (NodeState& node : nodes) {
          if (node.kind != Kind::kComputed || !node.has_wide_value) continue;
          cuda::widen_values(context, precision, node.tensor->value_data, node.wide_value.data(),
                             rows_of(node.tensor->space) * node.tensor->cols, nullptr);
        }
      });
}

// The gradients of trained inputs in fp32; and, of an fp16 graph, whether any gradient overflowed.
void GraphState::widen_gradients(const Context& context) {
  if (precision == DType::kF32) return;
  dispatch(
      context.device, [] {},
      [&] {
        int* flag = precision == DType::kF16 ? overflow.data() : nullptr;
        if (flag != nullptr) detail::zero(context, flag, sizeof(int));
        for (NodeState& node : nodes) {
          if (node.kind != Kind::kTrainedInput) continue;
          const int64_t rows = rows_of(node.tensor->space);
          if (node.fed_narrow) {
            if (flag != nullptr)
              cuda::find_overflow(context, precision, node.tensor->gradient_data,
                                  rows * node.tensor->cols, flag);
            continue;
          }
          cuda::widen_values(context, precision, node.tensor->gradient_data,
                             node.wide_gradient.data(), rows * node.tensor->cols, flag);
        }
        if (flag == nullptr) return;
        cuda::find_overflow(context, DType::kF32, parameter_gradients.data(),
                            parameter_gradients.size(), flag);
      });
}

void Graph::set_loss_scale(float scale) {
  EMBLEM_REQUIRE(scale > 0.0f, "graph: the loss scale is ", scale, ", but must be above 0");
  state_->step.loss_scale = scale;
}

bool Graph::overflowed(const Context& context) const {
  state_->check_device(context);
  if (state_->precision != DType::kF16) return false;
  return dispatch(
      context.device, [] { return false; }, [&] { return state_->overflow_read_back->get() != 0; });
}

}  // namespace emblem
