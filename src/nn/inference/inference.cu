#include "nn/inference/inference.h"

#include <algorithm>
#include <set>

#include "core/device/cuda_check.h"
#include "kernels/matmul_cuda.h"
#include "nn/graph_state.h"
#include "nn/inference/layers.h"
#include "nn/inference/lookup_interaction.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/dense/linear.h"
#include "nn/ops/interaction/interaction.h"
#include "nn/precision.h"

namespace emblem::cuda {
namespace {

int64_t padded(int64_t cols) { return (cols + 31) / 32 * 32; }

bool is_last(const Op& op, const Tensor* logits) {
  const auto* linear = dynamic_cast<const Linear*>(&op);
  return linear != nullptr && linear->output() == logits && linear->units() == 1 &&
         linear->activation() == Activation::kNone;
}

}  // namespace

struct Inference::Product {
  std::unique_ptr<Matmul> matmul;
};

Inference::Inference(const Context& context, Graph& graph, Node logits, InferenceInputs inputs)
    : graph_(graph), inputs_(std::move(inputs)) {
  GraphState& s = graph_state(graph_);
  EMBLEM_REQUIRE(s.prepared && s.device == Device::kCuda,
                 "inference: the graph was not prepared on a GPU");
  if (inputs_.dense.id >= 0) dense_ = s.tensor(inputs_.dense, "inference");
  for (const ScatteredInput& input : inputs_.embeddings)
    EMBLEM_REQUIRE(graph.cols(input.node) % input.dim == 0, "inference: '",
                   s.tensor(input.node, "inference")->name, "' has ", graph.cols(input.node),
                   " columns, which vectors of ", input.dim, " do not fill");
  logits_ = s.tensor(logits, "inference");
  finished_ = Buffer<uint32_t>::zeros(context, 1);
  choose_ops();
  prepare_ops(context);
  context.synchronize();
}

Inference::~Inference() = default;

const ScatteredInput* Inference::scattered(const Tensor* tensor) const {
  for (const ScatteredInput& input : inputs_.embeddings) {
    if (graph_state(graph_).tensor(input.node, "inference") == tensor) return &input;
  }
  return nullptr;
}

// Ops that the logits depend on; those that need no embeddings can run in parallel to the lookup.
void Inference::choose_ops() {
  std::set<const Tensor*> needed = {logits_}, late;
  const auto& ops = graph_state(graph_).ops;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    if ((*op)->output() == nullptr || !needed.contains((*op)->output())) continue;
    needed.insert((*op)->inputs().begin(), (*op)->inputs().end());
  }
  for (const auto& op : ops) {
    if (op->output() == nullptr || !needed.contains(op->output())) continue;
    const bool is_late =
        op->output() == logits_ ||
        std::any_of(op->inputs().begin(), op->inputs().end(), [&](const Tensor* input) {
          return late.contains(input) || scattered(input) != nullptr;
        });
    if (is_late) late.insert(op->output());
    (is_late ? after_ : before_).push_back(op.get());
  }
}

// Whether all that read it are linear layers that cuBLASLt runs as one.
bool Inference::feeds_layers_only(const Tensor* tensor) const {
  for (const auto& op : graph_state(graph_).ops) {
    const auto& reads = op->inputs();
    if (std::find(reads.begin(), reads.end(), tensor) == reads.end()) continue;
    const auto* layer = dynamic_cast<const Linear*>(op.get());
    if (layer == nullptr || layer->units() == 1) return false;
    if (layer->activation() != Activation::kRelu && layer->activation() != Activation::kNone)
      return false;
  }
  return true;
}

bool Inference::interacts_in_place(const Op& op) const {
  const auto* interaction = dynamic_cast<const Interaction*>(&op);
  if (interaction == nullptr) return false;
  const ScatteredInput* rows = scattered(op.inputs().back());
  return rows != nullptr && rows->dim == interaction->dim() &&
         can_interact(graph_state(graph_).precision, interaction->vectors(), interaction->dim()) &&
         (op.output()->cols % 8 == 0 || feeds_layers_only(op.output()));
}

void Inference::prepare_ops(const Context& context) {
  GraphState& s = graph_state(graph_);
  const bool narrow = s.precision != DType::kF32;
  if (narrow)
    narrow_values(context, s.parameter_values.data(), s.precision, s.narrow_parameters.data(),
                  s.parameter_values.size());
  std::set<const ScatteredInput*> gathered;
  for (const auto* ops : {&before_, &after_}) {
    for (const Op* op : *ops) {
      const auto* linear = dynamic_cast<const Linear*>(op);
      for (const Tensor* input : op->inputs()) {
        if (const ScatteredInput* rows = scattered(input); rows && !interacts_in_place(*op))
          gathered.insert(rows);
        const bool first = linear != nullptr && linear->inputs_count() <= kMostFirstInputs;
        if (input == dense_ && !first) narrows_dense_ = true;
      }
      // Rows of an odd number of elements are slow to multiply.
      const int64_t cols = op->output()->cols;
      if (!interacts_in_place(*op) || cols % 32 == 0 || !feeds_layers_only(op->output())) continue;
      places_[op->output()] = {Buffer<char>(Device::kCuda, s.max_rows * padded(cols), 2),
                               padded(cols)};
    }
  }
  gathered_.assign(gathered.begin(), gathered.end());
  for (const Op* op : after_) {
    const auto* linear = dynamic_cast<const Linear*>(op);
    if (linear == nullptr || !places_.contains(op->inputs()[0])) continue;
    Padded wide{places_[op->inputs()[0]].cols, {}};
    const int64_t units = linear->units(), inputs = linear->inputs_count();
    wide.weight = Buffer<uint16_t>::zeros(context, units, wide.inputs);
    cuda_check(cudaMemcpy2DAsync(wide.weight.data(), wide.inputs * 2,
                                 s.narrow_parameters.data() + linear->weight(), inputs * 2,
                                 inputs * 2, units, cudaMemcpyDeviceToDevice, context.stream),
               "copying weights");
    padded_[linear] = std::move(wide);
  }
}

void Inference::gather(const Context& context, int64_t rows) {
  GraphState& s = graph_state(graph_);
  for (const ScatteredInput* input : gathered_) {
    const Tensor* tensor = s.tensor(input->node, "inference");
    gather_vectors(context, {.addresses = input->addresses,
                             .rows = rows,
                             .lookups = tensor->cols / input->dim,
                             .bytes = input->dim * size_of(s.precision),
                             .out = static_cast<char*>(tensor->value_data)});
  }
}

void Inference::enqueue_before_lookup(const Context& context, int64_t rows) {
  GraphState& s = graph_state(graph_);
  s.rows = rows;
  s.phase = Phase::kEval;
  if (narrows_dense_) {
    narrow_values(context, inputs_.dense_values, s.precision, dense_->value_data,
                  rows * dense_->cols);
  }
  for (Op* op : before_) run(context, *op, rows);
}

void Inference::enqueue_after_lookup(const Context& context, int64_t rows, Order order,
                                     Answers answers) {
  GraphState& s = graph_state(graph_);
  s.rows = rows;
  s.phase = Phase::kEval;
  order_ = order;
  answers_ = answers;
  gather(context, rows);
  for (Op* op : after_) run(context, *op, rows);
  if (!after_.empty() && is_last(*after_.back(), logits_)) return;
  run_last_layer(context, {.dtype = logits_->dtype,
                           .rows = rows,
                           .x = logits_->value_data,
                           .probabilities = answers_.probabilities,
                           .done = answers_.done,
                           .finished = finished_.data()});
}

void Inference::run(const Context& context, Op& op, int64_t rows) {
  GraphState& s = graph_state(graph_);
  if (is_last(op, logits_) && !places_.contains(op.inputs()[0])) {
    const auto& linear = static_cast<const Linear&>(op);
    return run_last_layer(
        context, {.dtype = op.inputs()[0]->dtype,
                  .rows = rows,
                  .inputs = linear.inputs_count(),
                  .x = op.inputs()[0]->value_data,
                  .weight = s.parameter_values.data() + linear.weight(),
                  .bias = linear.bias() < 0 ? nullptr : s.parameter_values.data() + linear.bias(),
                  .probabilities = answers_.probabilities,
                  .done = answers_.done,
                  .finished = finished_.data()});
  }
  if (auto* linear = dynamic_cast<Linear*>(&op); linear != nullptr && linear->units() > 1)
    return run_linear(context, *linear, rows);
  if (interacts_in_place(op))
    return run_interaction(context, static_cast<const Interaction&>(op), rows);
  op.forward(s.op_context(context, op));
}

void Inference::run_interaction(const Context& context, const Interaction& interaction,
                                int64_t rows) {
  const ScatteredInput* input = scattered(interaction.inputs().back());
  const auto place = places_.find(interaction.output());
  const bool here = place == places_.end();
  interact(context,
           {.dtype = graph_state(graph_).precision,
            .first = interaction.has_first() ? interaction.inputs()[0]->value_data : nullptr,
            .addresses = input->addresses,
            .rows = rows,
            .lookups = interaction.inputs().back()->cols / interaction.dim(),
            .dim = interaction.dim(),
            .out = here ? interaction.output()->value_data : place->second.memory.data(),
            .pitch = here ? interaction.output()->cols : place->second.cols,
            .early = order_ == Order::kChained && gathered_.empty()});
}

const void* Inference::weight_of(const Linear& linear) const {
  const auto padded = padded_.find(&linear);
  if (padded != padded_.end()) return padded->second.weight.data();
  return graph_state(graph_).narrow_parameters.data() + linear.weight();
}

void Inference::run_linear(const Context& context, Linear& linear, int64_t rows) {
  GraphState& s = graph_state(graph_);
  const float* bias = linear.bias() < 0 ? nullptr : s.parameter_values.data() + linear.bias();
  if (linear.inputs()[0] == dense_ && linear.inputs_count() <= kMostFirstInputs) {
    return run_first_layer(context, {.dtype = s.precision,
                                     .activation = linear.activation(),
                                     .rows = rows,
                                     .inputs = linear.inputs_count(),
                                     .units = linear.units(),
                                     .x = inputs_.dense_values,
                                     .weight = s.parameter_values.data() + linear.weight(),
                                     .bias = bias,
                                     .y = linear.output()->value_data});
  }
  const auto place = places_.find(linear.inputs()[0]);
  const bool is_padded = place != places_.end();
  const void* x = is_padded ? place->second.memory.data() : linear.inputs()[0]->value_data;
  const int64_t inputs = is_padded ? place->second.cols : linear.inputs_count();
  if (can_run_few_rows(s.precision, rows, inputs, linear.units())) {
    return run_few_rows(context, {.dtype = s.precision,
                                  .activation = linear.activation(),
                                  .rows = rows,
                                  .inputs = inputs,
                                  .units = linear.units(),
                                  .x = x,
                                  .weight = weight_of(linear),
                                  .bias = bias,
                                  .y = linear.output()->value_data});
  }
  const bool as_one =
      linear.activation() == Activation::kRelu || linear.activation() == Activation::kNone;
  if (s.precision == DType::kF32 || !as_one) return linear.forward(s.op_context(context, linear));
  const auto planned = products_.find({&linear, rows});
  const bool is_planned = planned != products_.end();
  const Matmul* product = is_planned ? planned->second->matmul.get() : nullptr;
  if (!is_planned) {
    auto made = std::make_unique<Product>();
    const bool relu = linear.activation() == Activation::kRelu;
    void* narrow_bias = linear.bias() < 0 ? nullptr : s.narrow_parameters.data() + linear.bias();
    made->matmul = Matmul::plan_fastest(
        context, *s.matmul,
        {.m = rows,
         .n = linear.units(),
         .k = inputs,
         .transpose_b = Transpose::kYes,
         .a = x,
         .b = weight_of(linear),
         .c = linear.output()->value_data,
         .input_type = s.precision,
         .output_type = s.precision,
         .epilogue = narrow_bias == nullptr ? (relu ? Epilogue::kRelu : Epilogue::kNone)
                     : relu                 ? Epilogue::kBiasRelu
                                            : Epilogue::kBias,
         .vector = narrow_bias});
    EMBLEM_REQUIRE(made->matmul != nullptr || !is_padded, "inference: cuBLASLt has no product of [",
                   rows, ", ", inputs, "] and [", inputs, ", ", linear.units(), "] with a bias");
    product = made->matmul.get();
    products_[{&linear, rows}] = std::move(made);
  }
  if (product == nullptr) return linear.forward(s.op_context(context, linear));
  product->run(context);
}

}  // namespace emblem::cuda
