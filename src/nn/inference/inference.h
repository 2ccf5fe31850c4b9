// nn/inference/inference.h - a graph's forward pass as inference runs it on a GPU: from rows of
// embeddings, without a copy, to probabilities, with no op that only training needs. CUDA builds
// only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/device/stream.h"
#include "core/memory/buffer.h"
#include "nn/graph.h"

namespace emblem {
class Linear;
class Interaction;
class Op;
struct Tensor;
}  // namespace emblem

namespace emblem::cuda {

// An input node whose values are vectors of one dimension that are somewhere else, of the graph's
// precision. In 16 bits they are aligned to 16 bytes, else to 4.
struct ScatteredInput {
  Node node;
  const void* const* addresses = nullptr;  // [rows, cols of the node / dim]
  int64_t dim = 0;
};

struct InferenceInputs {
  Node dense;                           // id -1: none
  const float* dense_values = nullptr;  // [rows, cols]
  std::vector<ScatteredInput> embeddings;
};

// Used by one thread, on one stream at a time. Everything is asynchronous, and can be captured in a
// CUDA graph once it has run for the same number of rows.
class Inference {
 public:
  // `graph` was prepared on a GPU and has its parameters, which stay as they are. Borrowed.
  Inference(const Context& context, Graph& graph, Node logits, InferenceInputs inputs);
  ~Inference();

  // Both in host memory, where it may be.
  struct Answers {
    float* probabilities = nullptr;  // [rows]
    uint32_t* done = nullptr;        // becomes 1 when they are there; null: not needed
  };
  // Reads inputs.dense_values. May run while the addresses are still being found.
  void enqueue_before_lookup(const Context& context, int64_t rows);
  // Reads the addresses. kChained: all kernels since the lookup began are on this stream, where
  // each may start before the one before it ends.
  enum class Order { kParallel, kChained };
  void enqueue_after_lookup(const Context& context, int64_t rows, Order order, Answers answers);

 private:
  // A layer's weights as inference wants them: rows padded with zeros to a multiple of 32.
  struct Padded {
    int64_t inputs = 0;
    Buffer<uint16_t> weight;
  };
  // What an op reads or writes where that is not its tensor.
  struct Place {
    Buffer<char> memory;
    int64_t cols = 0;
  };
  void choose_ops();
  void prepare_ops(const Context& context);
  bool interacts_in_place(const Op& op) const;
  bool feeds_layers_only(const Tensor* tensor) const;
  const ScatteredInput* scattered(const Tensor* tensor) const;
  void gather(const Context& context, int64_t rows);
  void run(const Context& context, Op& op, int64_t rows);
  void run_linear(const Context& context, Linear& linear, int64_t rows);
  void run_interaction(const Context& context, const Interaction& interaction, int64_t rows);
  const void* weight_of(const Linear& linear) const;

  Graph& graph_;
  InferenceInputs inputs_;
  const Tensor* dense_ = nullptr;
  const Tensor* logits_ = nullptr;
  Order order_ = Order::kParallel;
  Answers answers_;
  Buffer<uint32_t> finished_;        // counter of the last layer
  std::vector<Op*> before_, after_;  // the lookup, in the order of running
  bool narrows_dense_ = false;
  std::vector<const ScatteredInput*> gathered_;  // that some op needs side by side
  std::map<const Tensor*, Place> places_;        // places of padded outputs
  std::map<const Linear*, Padded> padded_;
  struct Product;
  std::map<std::pair<const Linear*, int64_t>, std::unique_ptr<Product>> products_;
};

}  // namespace emblem::cuda
