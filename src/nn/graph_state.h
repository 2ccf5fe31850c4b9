// nn/graph_state.h - what a graph consists of. Internal: for the files of nn that build and run
// graphs, for inference, which runs its ops in another way, and for measurements of single ops.
#pragma once

#include <map>

#include "nn/ops/op.h"

namespace emblem {

namespace cuda {
template <class T>
class ReadBack;   // core/memory/pinned.h
class CudaGraph;  // core/device/cuda_graph.h
}  // namespace cuda

// On a GPU the elements of a sequence are padded to multiples of 1/16 of their power of two, so
// that few numbers of them occur.
int64_t round_elements(int64_t elements);

struct GraphState {
  enum class Kind { kInput, kTrainedInput, kIds, kComputed };
  struct NodeState {
    std::unique_ptr<Tensor> tensor;
    Kind kind = Kind::kComputed;
    bool fed_narrow = false;  // an embedding input
    bool is_output = false;   // a computed node that value() gives in every precision
    // For a 16-bit graph, in fp32: the values of inputs and outputs, the gradients of trained
    // inputs.
    bool has_wide_value = false, has_wide_gradient = false;
    Buffer<float> wide_value, wide_gradient;
  };
  // Values and gradients of the nodes of a space.
  struct Memory {
    Buffer<char> values, gradients;
  };
  // The memory of a space for a number of rows, before the space uses it.
  struct SpacePlan {
    struct OfNode {
      int64_t value_begin = 0;      // byte in `values`
      int64_t gradient_begin = -1;  // byte in `gradients`; -1: none
      Buffer<float> wide_value, wide_gradient;
    };
    int64_t rows = 0;
    Memory memory;
    std::vector<OfNode> nodes;  // as `nodes` of the graph; empty where of another space
    Buffer<int32_t> row_of;     // row of each element of a sequence
  };
  struct Sequence {
    std::string name;
    int64_t fixed_count = 0;          // elements of every row; 0: any number
    int64_t capacity = 0;             // elements that there is memory for
    int64_t elements = -1;            // in this batch; -1: not set yet
    int64_t rows = 0;                 // that ops run over: as many, on a GPU rounded up
    Buffer<int32_t> offsets, row_of;  // see OpContext
  };

  uint64_t seed = 0;
  std::string scope, scope_prefix;
  std::map<std::string, int64_t> layers_in_scope;
  std::vector<Sequence> sequences;  // space s is sequences[s - 1]
  std::vector<NodeState> nodes;
  std::vector<std::unique_ptr<Op>> ops;  // in the order of running forward
  std::vector<std::string> loss_names;
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
  std::vector<Op*> evaluated_ops;  // those of `ops` that Phase::kEval runs
  std::vector<Op*> backward_ops;   // in the order of running backward
  std::vector<Memory> memory;      // by space
  Buffer<float> parameter_values, parameter_gradients, statistic_values, workspace;
  Buffer<double> losses;  // in the order of loss_names
  // On a GPU:
  std::shared_ptr<cuda::MatmulLibrary> matmul;
  Buffer<unsigned> counters;  // see OpContext
  std::shared_ptr<cuda::ReadBack<double>> losses_read_back;
  Buffer<uint16_t> narrow_parameters;  // parameters of a 16-bit graph
  Buffer<int> overflow;                // 1 when a gradient of an fp16 graph was not finite
  std::shared_ptr<cuda::ReadBack<int>> overflow_read_back;
  // The passes of batches of this shape, recorded once they have run; see run_forward.
  struct Recorded {
    std::vector<int64_t> rows;  // by space
    Phase phase = Phase::kEval;
    int64_t forward_runs = 0, backward_runs = 0;
    std::shared_ptr<cuda::CudaGraph> forward, backward;
  };
  std::vector<Recorded> recorded;

  explicit GraphState(uint64_t seed) : seed(seed) {}

  // ---- building ----
  Tensor* tensor(Node node, const char* used_by);
  Node add_node(std::string name, int64_t cols, Kind kind, Space space = {});
  // A node of `cols` columns computed by make(output).
  template <class Make>
  Node add_op(const std::string& name, int64_t cols, Make&& make) {
    const Node node = add_node(name, cols, Kind::kComputed);
    add(make(nodes.back().tensor.get()));
    return node;
  }
  void add(std::unique_ptr<Op> op);
  int64_t add_loss(std::string name);  // its place in `losses`
  std::string next_layer();            // "SCOPE.N"
  // The one space of the inputs of an op that does not connect spaces.
  Space space_of_inputs(const Op& op) const;
  std::string name_of_space(Space space) const;

  // ---- spaces ----
  int64_t capacity_of(Space space) const;   // rows that there is memory for
  int64_t rows_of(Space space) const;       // that ops run over
  int64_t real_rows_of(Space space) const;  // without padding
  std::vector<Space> spaces() const;
  Sequence& sequence(Space space, const char* used_by);
  // Allocates values and gradients of one space; nothing uses them yet.
  SpacePlan plan_space(const Context& context, Space space, int64_t rows) const;
  void use(Space space, SpacePlan plan) noexcept;
  // Allocates what ops keep for up to `rows` rows of a space, and the workspace. Where it throws,
  // ops have at least the memory that they had before.
  void prepare_ops(const Context& context, Space space, int64_t rows);
  // More memory for a sequence. Where it throws, the graph has the capacity of before.
  void grow(const Context& context, Space space, int64_t elements);
  void clear_padding_of_inputs(const Context& context, Space space);
  void check_elements() const;
  // Sequences with a fixed count: memory and offsets for all batches, before it is planned; the
  // elements of a batch; and their rows.
  void prepare_fixed_sequences(const Context& context);
  void set_fixed_elements();
  void find_fixed_rows(const Context& context);

  // ---- running ----
  void plan_types();
  void plan_strides();
  void plan_evaluation();
  void chain_layers();  // after freeze()
  void plan_backward();
  int64_t widest_row() const;  // elements
  void publish_step(const Context& context);
  // Enqueue all kernels of a pass, or replay them.
  void run_forward(const Context& context);
  void run_backward(const Context& context);
  void enqueue_forward(const Context& context);
  void enqueue_backward(const Context& context);
  Recorded& recorded_for_shape();
  void narrow_inputs(const Context& context);
  void widen_outputs(const Context& context);
  void widen_gradients(const Context& context);
  void plan_values(const Context& context, Space space, SpacePlan& plan) const;
  void plan_gradients(const Context& context, Space space, SpacePlan& plan) const;
  void check_device(const Context& context) const;
  OpContext op_context(const Context& context, const Op& op);
};

GraphState& graph_state(Graph& graph);

// That x is a list of vectors of dimension dim.
void require_vectors(const char* op, const Tensor& x, int64_t dim);

}  // namespace emblem
