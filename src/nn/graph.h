// nn/graph.h - a static graph of layers over batches of rows: built once, run many times.
//
// Every node's value is a [rows, cols] matrix; the number of rows is that of the batch and may
// change from run to run up to the prepared maximum. Backward is derived. Parameters of the whole
// graph are in one buffer, their gradients in another, so that one pass updates or reduces them
// all.
//
// One thread uses a graph at a time. The same seed and inputs give the same bytes in every run on a
// device, whatever the number of threads of the context. Everything is on the device of the
// context that prepared the graph; on a GPU the passes are asynchronous, and recorded and replayed
// as one where the context has a stream of its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/any_view.h"
#include "core/buffer.h"
#include "core/context.h"
#include "core/half.h"
#include "core/phase.h"

namespace emblem {

class Op;
struct GraphState;

struct Node {
  int id = -1;
};

enum class Activation { kNone, kRelu, kSigmoid, kTanh, kGelu, kSilu, kLeakyRelu };

// Reads TorchEasyRec's spelling ("nn.ReLU", "nn.Sigmoid", ...); throws with the list of known
// names.
Activation activation_from_name(const std::string& name);

struct MlpOptions {
  std::vector<int64_t> hidden_units;
  Activation activation = Activation::kRelu;
  std::vector<float> dropout;  // empty, one for all, or one a layer
  enum class Norm { kNone, kBatch, kLayer } norm = Norm::kNone;
  bool bias = true;  // ignored with batch norm, whose shift takes its place
};

// A trained matrix or vector: its place in the buffers of parameters and gradients.
struct Parameter {
  std::string name;  // "bottom.0.weight"
  int64_t rows = 0, cols = 0;
  int64_t begin = 0;       // first float in parameters() and parameter_gradients()
  bool is_weight = false;  // a matrix of a linear layer: what weight decay and L2 apply to
};

class Graph {
 public:
  explicit Graph(uint64_t seed);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  // ---- building: every function appends nodes; names of parameters start with the current scope
  // ----
  void set_scope(std::string scope);                   // "bottom" -> "bottom.0.weight"
  Node input(std::string name, int64_t cols);          // fed through value(); no gradient
  Node trained_input(std::string name, int64_t cols);  // its gradient can be read after backward
  // A trained input that is fed and read in the precision of the graph, through matrix() and
  // gradient_matrix().
  Node embedding_input(std::string name, int64_t cols);
  Node linear(Node x, int64_t units, Activation activation = Activation::kNone);
  Node linear_without_bias(Node x, int64_t units);
  Node bias(Node x);  // x + a trained row, which starts at 0
  Node mlp(Node x, const MlpOptions& options);
  Node batch_norm(Node x, Activation activation = Activation::kNone);
  Node layer_norm(Node x, Activation activation = Activation::kNone);
  Node activation(Node x, Activation activation);
  Node dropout(Node x, float ratio);
  // x is [rows, n * dim], n vectors; out [rows, n (n - 1) / 2]: their dot products, (1,0) (2,0)
  // (2,1) ...
  Node dot_interaction(Node x, int64_t dim);
  // [first, dot products of first and x]: DLRM's interaction in one op. first is [rows, dim] (may
  // be invalid, id -1), x is [rows, n * dim]; out [rows, dim + pairs] or [rows, pairs].
  Node dlrm_interaction(Node first, Node x, int64_t dim);
  // x is [rows, n * dim]; out [rows, dim] = ((sum v)^2 - sum v^2) / 2
  Node fm(Node x, int64_t dim);
  Node cross_v1(Node x0, int layers);  // x' = x0 (x . w) + b + x
  Node cross_v2(Node x0, int layers,
                int64_t rank);  // x' = x0 * (W x + b) + x; W = U V, rank 0: full
  Node concat(const std::vector<Node>& parts);
  Node slice(Node x, int64_t begin, int64_t end);
  Node sum(const std::vector<Node>& parts);  // elementwise, equal shapes
  Node multiply(Node a, Node b);             // elementwise
  Node scale(Node x, float factor);
  Node row_sum(Node x);  // [rows, 1]
  Node sigmoid(Node x);
  // The mean over rows (weighted by `weights` unless its id is -1) of the cross entropy of
  // sigmoid(logits) and labels in {0, 1}, all [rows, 1]: the graph's loss, or a summand of it where
  // called more than once.
  void binary_cross_entropy(Node logits, Node labels, Node weights = {},
                            float label_smoothing = 0.0f);

  int64_t cols(Node node) const;

  // ---- running ----
  // Plans buffers for batches of up to max_rows and draws the initial parameters. Call once.
  // `precision` is that of values, gradients of nodes and matrix products; sums, parameters and
  // their gradients are in fp32, and so is what value() and gradient() give. 16 bits: on a GPU.
  // For Purpose::kInference there is no room for gradients, and no backward.
  enum class Purpose { kTraining, kInference };
  void prepare(const Context& context, int64_t max_rows, DType precision = DType::kF32,
               Purpose purpose = Purpose::kTraining);
  // Sets the number of rows of the coming run; value() of inputs is then filled by the caller.
  void set_rows(int64_t rows);
  View<float> value(Node node);  // in 16 bits: of inputs and of the logits of losses only
  // After backward, of a trained input. Other gradients share memory and are gone by then.
  View<float> gradient(Node node);
  // The same of an embedding input, in the graph's precision.
  AnyView matrix(Node node);
  ConstAnyView gradient_matrix(Node node);
  // `draw` numbers the batch: dropout masks depend on (seed, draw) alone.
  void forward(const Context& context, Phase phase, uint64_t draw);
  void backward(const Context& context);  // of a forward in training
  // From now on backward gives all gradients multiplied by `scale`, so that small ones do not
  // vanish in fp16.
  void set_loss_scale(float scale);
  // Whether a gradient of the last backward was infinite or not a number; waits for it. In fp16
  // only.
  bool overflowed(const Context& context) const;
  // Of the last forward; waits for that, not for a later backward. NaN labels give NaN.
  double loss(const Context& context) const;

  // For inference: the parameters stay as they are from now on, and forward in Phase::kEval need
  // not read them again.
  void freeze();

  std::span<const Parameter> parameter_list() const;
  View<float> parameters();
  View<float> parameter_gradients();
  // Running statistics of batch norm and the like: saved, not trained.
  std::span<const Parameter> statistic_list() const;
  View<float> statistics();

  // Floating-point operations of one forward pass per row, for the share of the ceiling.
  double flops_per_row() const;
  int64_t values_per_row() const;  // of all nodes
  std::string describe() const;    // one line a node

 private:
  friend GraphState& graph_state(Graph& graph);  // nn/graph_state.h
  std::unique_ptr<GraphState> state_;
};

}  // namespace emblem
