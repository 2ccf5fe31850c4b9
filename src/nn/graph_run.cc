#include <set>

#include "core/memory/pinned.h"
#include "kernels/matmul_cuda.h"
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/ops/dense/linear.h"

namespace emblem {
namespace {

// Drawn on the CPU: the same bytes on every device.
Buffer<float> initial_values(const Context& context, const ParameterSet& set, uint64_t seed) {
  std::vector<float> values(set.floats());
  set.initialize(seed, values.data());
  return Buffer<float>::from(context, values);
}

}  // namespace

void GraphState::check_device(const Context& context) const {
  EMBLEM_REQUIRE(context.device == device, "graph: run on ", context.device, ", but prepared for ",
                 device);
}

// All but those that nothing but losses of training depends on. These losses are run, too: they
// give 0 without reading anything.
void GraphState::plan_evaluation() {
  std::set<const Tensor*> needed, for_training;
  evaluated_ops.clear();
  for (const NodeState& node : nodes)
    if (node.is_output) needed.insert(node.tensor.get());
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    const Tensor* output = (*op)->output();
    const bool runs =
        output == nullptr || needed.contains(output) || !for_training.contains(output);
    if (runs) evaluated_ops.push_back(op->get());
    auto& reached = runs && !(*op)->is_for_training_only() ? needed : for_training;
    reached.insert((*op)->inputs().begin(), (*op)->inputs().end());
  }
  std::reverse(evaluated_ops.begin(), evaluated_ops.end());
}

// Decides which ops run backward and, which of them writes the gradient of each input first.
void GraphState::plan_backward() {
  std::map<const Tensor*, bool> reached;  // the loss depends on it
  backward_ops.clear();
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    const bool is_loss = (*op)->output() == nullptr;
    if (!is_loss && !(reached[(*op)->output()] && (*op)->output()->needs_gradient)) continue;
    backward_ops.push_back(op->get());
    for (size_t i = 0; i < (*op)->inputs().size(); ++i)
      reached[(*op)->inputs()[i]] |= (*op)->sends_gradient(i);
  }
  std::map<const Tensor*, bool> written;
  for (Op* op : backward_ops) {
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      const Tensor* input = op->inputs()[i];
      if (!input->needs_gradient || !reached[input] || !op->sends_gradient(i)) continue;
      op->set_write(i, written[input] ? Write::kAdd : Write::kOverwrite);
      written[input] = true;
    }
  }
  for (const NodeState& node : nodes) node.tensor->gradient_cols = node.tensor->cols;
  for (const Op* op : backward_ops) {
    if (op->output() != nullptr) op->output()->gradient_cols = op->gradient_cols();
  }
}

int64_t GraphState::widest_row() const {
  int64_t widest = 0;
  for (const NodeState& node : nodes) widest = std::max(widest, node.tensor->stride);
  return widest;
}

void Graph::prepare(const Context& context, int64_t max_rows, DType precision, Purpose purpose) {
  GraphState& s = *state_;
  EMBLEM_REQUIRE(!s.prepared, "graph: prepare() was called twice");
  EMBLEM_REQUIRE(max_rows > 0, "graph: prepared for batches of ", max_rows,
                 " rows; at least 1 is needed");
  EMBLEM_REQUIRE(precision != DType::kF16 || context.device == Device::kCuda,
                 "graph: fp16 is computed on a GPU only; use fp32 or bf16 on the CPU");
  EMBLEM_REQUIRE(precision != DType::kInt8 ||
                     (context.device == Device::kCpu && purpose == Graph::Purpose::kInference),
                 "graph: int8 is for inference on a CPU only");
  if (context.device == Device::kCpu) {
    for (const auto& op : s.ops) {
      const bool stays_wide = precision == DType::kInt8 && op->int8_inputs() == nullptr;
      op->set_product_type(stays_wide ? DType::kF32 : precision);
    }
    precision = DType::kF32;
  }
  s.device = context.device;
  s.precision = precision;
  s.max_rows = max_rows;
  s.purpose = purpose;
  s.plan_types();
  s.plan_strides();
  s.plan_evaluation();
  if (purpose == Graph::Purpose::kTraining) s.plan_backward();
  for (GraphState::Sequence& sequence : s.sequences)
    sequence.offsets = Buffer<int32_t>(context.device, max_rows + 1);
  s.prepare_fixed_sequences(context);
  for (const auto& op : s.ops) op->set_max_batch_rows(max_rows);
  s.memory.resize(s.sequences.size() + 1);
  for (const Space space : s.spaces())
    s.use(space, s.plan_space(context, space, s.capacity_of(space)));
  for (const Space space : s.spaces()) s.prepare_ops(context, space, s.capacity_of(space));
  s.parameter_values = initial_values(context, s.parameters, s.seed);
  if (purpose == Graph::Purpose::kTraining)
    s.parameter_gradients = Buffer<float>::zeros(context, s.parameters.floats());
  s.statistic_values = initial_values(context, s.statistics, s.seed);
  const auto losses = std::max<int64_t>(1, static_cast<int64_t>(s.loss_names.size()));
  s.losses = Buffer<double>::zeros(context, losses);
  s.step_values = Buffer<StepInputs>(context.device, 1);
  dispatch(
      context.device, [] {},
      [&] {
        s.matmul = std::make_shared<cuda::MatmulLibrary>();
        s.counters = Buffer<unsigned>::zeros(context, s.widest_row() / kLeastSummedCols + 1);
        s.losses_read_back = std::make_shared<cuda::ReadBack<double>>(losses);
        s.overflow_read_back = std::make_shared<cuda::ReadBack<int>>();
      });
  s.overflow = Buffer<int>::zeros(context, 1);
  if (precision != DType::kF32)
    s.narrow_parameters = Buffer<uint16_t>(context.device, s.parameters.floats());
  context.synchronize();
  s.prepared = true;
}

void Graph::set_rows(int64_t rows) {
  GraphState& s = *state_;
  EMBLEM_REQUIRE(rows >= 0 && rows <= s.max_rows, "graph: a batch of ", rows,
                 " rows, but the graph was prepared for at most ", s.max_rows);
  s.rows = rows;
  s.ran_forward = false;
  for (GraphState::Sequence& sequence : s.sequences) sequence.elements = -1;
  s.set_fixed_elements();
}

View<int64_t> Graph::ids(Node node) {
  Tensor* tensor = state_->tensor(node, "ids");
  EMBLEM_REQUIRE(state_->nodes[node.id].kind == GraphState::Kind::kIds, "graph: '", tensor->name,
                 "' is not an id input");
  EMBLEM_REQUIRE(state_->prepared, "graph: the ids of '", tensor->name,
                 "' were asked for before prepare()");
  return {tensor->value<int64_t>(), state_->real_rows_of(tensor->space), 1, state_->device};
}

View<float> Graph::value(Node node) {
  Tensor* tensor = state_->tensor(node, "value");
  EMBLEM_REQUIRE(state_->nodes[node.id].kind != GraphState::Kind::kIds, "graph: '", tensor->name,
                 "' is an id input; use ids()");
  EMBLEM_REQUIRE(state_->prepared, "graph: the value of '", tensor->name,
                 "' was asked for before prepare()");
  Buffer<float>& wide = state_->nodes[node.id].wide_value;
  EMBLEM_REQUIRE(
      tensor->dtype == DType::kF32 || state_->nodes[node.id].has_wide_value, "graph: '",
      tensor->name, "' is kept in ", name_of(tensor->dtype),
      "; only inputs, the logits of losses and what mark_output() was called for can be read");
  float* data = tensor->dtype == DType::kF32 ? tensor->value() : wide.data();
  return {data, state_->real_rows_of(tensor->space), tensor->cols, state_->device};
}

View<float> Graph::gradient(Node node) {
  Tensor* tensor = state_->tensor(node, "gradient");
  EMBLEM_REQUIRE(state_->nodes[node.id].kind == GraphState::Kind::kTrainedInput,
                 "graph: the gradient of '", tensor->name,
                 "' was asked for, but only those of trained inputs are kept");
  EMBLEM_REQUIRE(state_->prepared, "graph: the gradient of '", tensor->name,
                 "' was asked for before prepare()");
  Buffer<float>& wide = state_->nodes[node.id].wide_gradient;
  EMBLEM_REQUIRE(tensor->dtype == DType::kF32 || state_->nodes[node.id].has_wide_gradient,
                 "graph: the gradient of '", tensor->name, "' is kept in ", name_of(tensor->dtype),
                 "; read it through gradient_matrix()");
  float* data = tensor->dtype == DType::kF32 ? tensor->gradient() : wide.data();
  return {data, state_->real_rows_of(tensor->space), tensor->cols, state_->device};
}

AnyView Graph::matrix(Node node) {
  Tensor* tensor = state_->tensor(node, "matrix");
  EMBLEM_REQUIRE(state_->prepared && state_->nodes[node.id].fed_narrow, "graph: '", tensor->name,
                 "' is not an embedding input of a prepared graph");
  return {tensor->value_data, state_->real_rows_of(tensor->space), tensor->cols, tensor->dtype,
          state_->device};
}

AnyView Graph::gradient_matrix(Node node) {
  const AnyView values = matrix(node);
  const Tensor* tensor = state_->tensor(node, "gradient_matrix");
  return {tensor->gradient_data, values.rows, values.cols, values.dtype, values.device};
}

OpContext GraphState::op_context(const Context& context, const Op& op) {
  OpContext pass{.context = context,
                 .rows = rows_of(op.space()),
                 .phase = phase,
                 .seed = seed,
                 .step = step_values.data(),
                 .parameters = parameter_values.data(),
                 .gradients = parameter_gradients.data(),
                 .narrow_parameters = narrow_parameters.data(),
                 .statistics = statistic_values.data(),
                 .workspace = workspace.data(),
                 .losses = losses.data(),
                 .matmul = matmul.get(),
                 .counters = counters.data(),
                 .batch_rows = rows};
  if (op.space() == Space{}) return pass;
  const Sequence& sequence = sequences[op.space().id - 1];
  pass.offsets = sequence.offsets.data();
  pass.row_of = sequence.row_of.data();
  if (device != Device::kCpu) pass.real_rows = pass.offsets + rows;
  return pass;
}

void GraphState::enqueue_forward(const Context& context) {
  narrow_inputs(context);
  if (phase == Phase::kEval) {
    for (Op* op : evaluated_ops) op->forward(op_context(context, *op));
  } else {
    for (const auto& op : ops) op->forward(op_context(context, *op));
  }
  widen_outputs(context);
}

void GraphState::enqueue_backward(const Context& context) {
  for (Op* op : backward_ops) op->backward(op_context(context, *op));
  widen_gradients(context);
}

void Graph::forward(const Context& context, Phase phase, uint64_t draw) {
  GraphState& s = *state_;
  EMBLEM_REQUIRE(s.prepared, "graph: forward() before prepare()");
  s.check_device(context);
  s.check_elements();
  s.find_fixed_rows(context);
  s.phase = phase;
  s.step.draw = draw;
  s.publish_step(context);
  s.run_forward(context);
  dispatch(
      context.device, [] {}, [&] { s.losses_read_back->start(context, s.losses.data()); });
  s.ran_forward = true;
}

void GraphState::chain_layers() {
  for (Op* op : evaluated_ops) {
    auto* layer = dynamic_cast<Linear*>(op);
    const auto follower =
        std::find_if(evaluated_ops.begin(), evaluated_ops.end(), [&](const Op* other) {
          return dynamic_cast<const Linear*>(other) != nullptr &&
                 other->inputs()[0] == op->output();
        });
    if (layer != nullptr && follower != evaluated_ops.end())
      layer->set_follower(dynamic_cast<Linear&>(**follower));
  }
}

void Graph::freeze() {
  EMBLEM_REQUIRE(state_->prepared, "graph: freeze() before prepare()");
  if (state_->parameter_values.view().device != Device::kCpu)
    return;  // nothing is kept on a GPU yet
  for (const auto& op : state_->ops) op->freeze(state_->parameter_values.data());
  state_->chain_layers();
}

void Graph::record_inputs() {
  for (const auto& op : state_->ops)
    if (op->int8_inputs() != nullptr) op->int8_inputs()->records = true;
}

LayerRanges Graph::recorded_ranges() const {
  LayerRanges all;
  for (const auto& op : state_->ops) {
    const Op::Int8Inputs* inputs = op->int8_inputs();
    if (inputs == nullptr || inputs->recorder.empty()) continue;
    const std::string layer(op->name());
    for (const Parameter& weight : state_->parameters.list()) {
      if (weight.name == layer + ".weight")
        all[layer] = inputs->recorder.ranges(
            {state_->parameter_values.data() + weight.begin, weight.rows, weight.cols});
    }
  }
  return all;
}

void Graph::set_input_ranges(const LayerRanges& ranges) {
  for (const auto& op : state_->ops) {
    const auto found = ranges.find(std::string(op->name()));
    if (op->int8_inputs() != nullptr && found != ranges.end())
      op->int8_inputs()->ranges = found->second;
  }
}

std::vector<std::string> Graph::int8_layers() const {
  std::vector<std::string> names;
  for (const auto& op : state_->ops)
    if (op->int8_inputs() != nullptr) names.emplace_back(op->name());
  return names;
}

void Graph::backward(const Context& context) {
  GraphState& s = *state_;
  s.check_device(context);
  EMBLEM_REQUIRE(!s.loss_names.empty(), "graph: backward() of a graph without a loss");
  EMBLEM_REQUIRE(s.purpose == Graph::Purpose::kTraining,
                 "graph: backward() of a graph that was prepared for inference");
  EMBLEM_REQUIRE(s.ran_forward,
                 "graph: backward() without a forward() of the same batch before it");
  EMBLEM_REQUIRE(s.phase == Phase::kTrain,
                 "graph: backward() of an evaluation; run forward() in training before it");
  s.ran_forward = false;  // it overwrites what a second backward would read
  s.publish_step(context);
  s.run_backward(context);
  if (s.precision != DType::kF16) return;
  dispatch(
      context.device, [] {}, [&] { s.overflow_read_back->start(context, s.overflow.data()); });
}

double Graph::loss(const Context& context) const {
  double sum = 0.0;
  for (const double loss : losses(context)) sum += loss;
  return sum;
}

std::vector<double> Graph::losses(const Context& context) const {
  state_->check_device(context);
  std::vector<double> values(state_->loss_names.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = dispatch(
        context.device, [&] { return state_->losses.data()[i]; },
        [&] { return state_->losses_read_back->get(i); });
  }
  return values;
}

std::vector<std::string> Graph::loss_names() const { return state_->loss_names; }

std::span<const Parameter> Graph::parameter_list() const { return state_->parameters.list(); }
std::span<const Parameter> Graph::statistic_list() const { return state_->statistics.list(); }
View<float> Graph::parameters() { return state_->parameter_values.view(); }
View<float> Graph::parameter_gradients() { return state_->parameter_gradients.view(); }
View<float> Graph::statistics() { return state_->statistic_values.view(); }

}  // namespace emblem
