// nn/graph_state.h - what a graph consists of, shared by its building and its running half.
#pragma once

#include <map>

#include "nn/op.h"

namespace emblem {

namespace cuda {
template <class T>
class ReadBack;  // core/pinned.h
}

struct Graph::State {
  enum class Kind { kInput, kTrainedInput, kComputed };
  struct NodeState {
    std::unique_ptr<Tensor> tensor;
    Kind kind = Kind::kComputed;
    int64_t value_begin = 0;      // in `values`
    int64_t gradient_begin = -1;  // in `gradients`; -1: none
  };

  uint64_t seed = 0;
  std::string scope;
  std::map<std::string, int64_t> layers_in_scope;
  std::vector<NodeState> nodes;
  std::vector<std::unique_ptr<Op>> ops;  // in the order of running forward
  std::vector<const Op*> losses;
  ParameterSet parameters, statistics;

  bool prepared = false;
  Device device = Device::kCpu;  // that it was prepared for
  bool ran_forward = false;      // since set_rows: backward may run
  int64_t max_rows = 0, rows = 0;
  Phase phase = Phase::kEval;
  uint64_t draw = 0;
  std::vector<Op*> backward_ops;  // in the order of running backward
  Buffer<float> values, gradients, parameter_values, parameter_gradients, statistic_values,
      workspace;
  Buffer<double> loss;
  // On a GPU:
  std::shared_ptr<cuda::MatmulLibrary> matmul;
  std::shared_ptr<cuda::ReadBack<double>> loss_read_back;

  explicit State(uint64_t seed) : seed(seed) {}

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
  void plan_backward();
  void plan_gradients(const Context& context);
  void check_device(const Context& context) const;
  Pass pass(const Context& context);
};

}  // namespace emblem
