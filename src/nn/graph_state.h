// nn/graph_state.h - what a graph consists of. Internal: for the files of nn that build and run
// graphs, for inference, which runs its ops in another way, and for measurements of single ops.
#pragma once

#include <map>

#include "nn/ops/op.h"

namespace emblem {

namespace cuda {
template <class T>
class ReadBack;   // core/pinned.h
class CudaGraph;  // core/cuda_graph.h
}  // namespace cuda

struct GraphState {
  enum class Kind { kInput, kTrainedInput, kComputed };
  struct NodeState {
    std::unique_ptr<Tensor> tensor;
    Kind kind = Kind::kComputed;
    int64_t value_begin = 0;      // byte in `values`
    int64_t gradient_begin = -1;  // byte in `gradients`; -1: none
    bool fed_narrow = false;      // an embedding input
    // Of a 16-bit graph, in fp32: the values of inputs and logits, the gradients of trained inputs.
    Buffer<float> wide_value, wide_gradient;
  };

  uint64_t seed = 0;
  std::string scope;
  std::map<std::string, int64_t> layers_in_scope;
  std::vector<NodeState> nodes;
  std::vector<std::unique_ptr<Op>> ops;  // in the order of running forward
  std::vector<const Op*> losses;
  ParameterSet parameters, statistics;

  bool prepared = false;
  Graph::Purpose purpose = Graph::Purpose::kTraining;
  Device device = Device::kCpu;  // that it was prepared for
  DType precision = DType::kF32;
  bool ran_forward = false;  // since set_rows: backward may run
  int64_t max_rows = 0, rows = 0;
  Phase phase = Phase::kEval;
  StepInputs step;
  Buffer<StepInputs> step_values;  // the same, where kernels read it
  std::vector<Op*> backward_ops;   // in the order of running backward
  Buffer<char> values, gradients;
  Buffer<float> parameter_values, parameter_gradients, statistic_values, workspace;
  Buffer<double> loss;
  // On a GPU:
  std::shared_ptr<cuda::MatmulLibrary> matmul;
  std::shared_ptr<cuda::ReadBack<double>> loss_read_back;
  Buffer<uint16_t> narrow_parameters;  // of a 16-bit graph
  Buffer<int> overflow;                // 1 when a gradient of an fp16 graph was not finite
  std::shared_ptr<cuda::ReadBack<int>> overflow_read_back;
  // The passes of batches of this shape, recorded once they have run; see run_forward.
  struct Recorded {
    int64_t rows = 0;
    Phase phase = Phase::kEval;
    int64_t forward_runs = 0, backward_runs = 0;
    std::shared_ptr<cuda::CudaGraph> forward, backward;
  };
  std::vector<Recorded> recorded;

  explicit GraphState(uint64_t seed) : seed(seed) {}

  // ---- building ----
  Tensor* tensor(Node node, const char* used_by);
  Node add_node(std::string name, int64_t cols, Kind kind);
  // A node of `cols` columns computed by make(output).
  template <class Make>
  Node add_op(const std::string& name, int64_t cols, Make&& make) {
    const Node node = add_node(name, cols, Kind::kComputed);
    add(make(nodes.back().tensor.get()));
    return node;
  }
  void add(std::unique_ptr<Op> op);
  std::string next_layer();  // "SCOPE.N"

  // ---- running ----
  void plan_types();
  void plan_strides();
  void plan_backward();
  void plan_values(const Context& context);
  void publish_step(const Context& context);
  // Enqueue all kernels of a pass, or replay them.
  void run_forward(const Context& context);
  void run_backward(const Context& context);
  void enqueue_forward(const Context& context);
  void enqueue_backward(const Context& context);
  Recorded& recorded_for_shape();
  void narrow_inputs(const Context& context);
  void widen_logits(const Context& context);
  void widen_gradients(const Context& context);
  void plan_gradients(const Context& context);
  void check_device(const Context& context) const;
  OpContext op_context(const Context& context);
};

GraphState& graph_state(Graph& graph);

}  // namespace emblem
