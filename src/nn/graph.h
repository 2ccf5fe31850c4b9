// nn/graph.h - a static graph of layers over batches of rows: built once, run many times.
//
// Every node's value is a [rows, cols] matrix over a space: the rows of the batch, or the elements
// of a sequence, which each row of the batch has any number of. Numbers of rows and elements may
// change from run to run. Backward is derived. Parameters of the whole graph are in one buffer,
// their gradients in another, so that one pass updates or reduces them all.
//
// One thread uses a graph at a time. The same seed and inputs give the same bytes in every run on a
// device, whatever the number of threads of the context. Everything is on the device of the
// context that prepared the graph; on a GPU the passes are asynchronous, and recorded and replayed
// as one where the context has a stream of its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/context.h"
#include "core/device/phase.h"
#include "core/math/half.h"
#include "core/memory/any_view.h"
#include "core/memory/buffer.h"
#include "kernels/input_ranges.h"
#include "loss/losses.h"
#include "nn/initial.h"

namespace emblem {

class Op;
struct GraphState;

struct Node {
  int id = -1;
};

// What a node has rows for. 0: the batch; others are sequences.
struct Space {
  int id = 0;
  bool operator==(const Space&) const = default;
};

// Activation functions, with the arguments that torch's have, in their order.
struct Activation {
  enum Kind {
    kNone,
    kRelu,
    kSigmoid,
    kTanh,
    kGelu,
    kSilu,
    kLeakyRelu,
    kGeluTanh,
    kElu,
    kSelu,
    kCelu,
    kSoftplus,
    kSoftsign,
    kHardswish,
    kHardsigmoid,
    kHardtanh,
    kRelu6,
    kMish,
    kLogSigmoid,
    kPrelu,  // a trained slope, which starts at the argument
    kDice,   // a gate from statistics of the batch, and a trained slope for each column
  };

  Activation(Kind kind = kNone);  // with torch's arguments  NOLINT: converts
  Activation(Kind kind, float first, float second = 0.0f)
      : kind(kind), first(first), second(second) {}
  bool operator==(const Activation&) const = default;
  bool is_trained() const { return kind == kPrelu || kind == kDice; }

  Kind kind;
  float first, second;
};

// Reads TorchEasyRec's spelling: "nn.ReLU", "nn.LeakyReLU(negative_slope=0.2)", "Dice", "" for
// none. Throws with the list of known names.
Activation activation_from_name(const std::string& text);

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
  void set_scope(std::string scope);  // "bottom" -> "bottom.0.weight"
  // What the scopes from now on begin with: "member_1." -> "member_1.bottom.0.weight".
  void set_scope_prefix(std::string prefix);
  Space add_sequence(std::string name);
  Space space(Node node) const;
  Node input(std::string name, int64_t cols, Space space = {});  // fed through value(); no gradient
  // Its gradient can be read after backward.
  Node trained_input(std::string name, int64_t cols, Space space = {});
  // A trained input that is fed and read in the precision of the graph, through matrix() and
  // gradient_matrix().
  Node embedding_input(std::string name, int64_t cols, Space space = {});
  // [rows, 1] of 64-bit integers, fed through ids(): what losses group rows by.
  Node id_input(std::string name);
  // Weights start uniform by Xavier, biases at 0, where `initial` does not say otherwise.
  struct LinearInitial {
    std::optional<Initial> weight, bias;
  };
  Node linear(Node x, int64_t units, Activation activation = Activation::kNone,
              const LinearInitial& initial = {});
  Node linear_without_bias(Node x, int64_t units, std::optional<Initial> initial = {});
  Node bias(Node x);  // x + a trained row, which starts at 0
  Node mlp(Node x, const MlpOptions& options);
  // The output of each layer, after activation and dropout.
  std::vector<Node> mlp_layers(Node x, const MlpOptions& options);
  Node batch_norm(Node x, Activation activation = Activation::kNone);
  Node layer_norm(Node x, Activation activation = Activation::kNone);
  // Each of the vectors of x [rows, n * dim], with one scale and shift of dimension dim for all.
  Node layer_norm_vectors(Node x, int64_t dim);
  Node activation(Node x, Activation activation);
  Node dropout(Node x, float ratio);
  // [first, dot products of all pairs of vectors of first and x: (1,0) (2,0) (2,1) ...]: DLRM's
  // interaction in one op. first is [rows, dim] (may be invalid, id -1), x is [rows, n * dim]; out
  // [rows, dim + pairs] or [rows, pairs].
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
  Node scale_by_sigmoid(Node x, Node z, float factor);  // x * factor * sigmoid(z), elementwise
  Node row_sum(Node x);                                 // [rows, 1]
  Node sigmoid(Node x);
  Node stop_gradient(Node x);  // x, through which no gradient flows
  Node softmax(Node x);        // over the columns
  // The experts, equally wide, weighted by the columns of gate: [rows, cols of an expert].
  Node mix(Node gate, const std::vector<Node>& experts);
  Node normalize(Node x);  // x / max(|x|, 1e-12), by rows
  // x is [rows, n * dim], n vectors; out [rows, out_vectors * dim]: W^T over the vectors, W
  // [n, out_vectors].
  Node mix_vectors(Node x, int64_t dim, int64_t out_vectors);
  // WuKong: x is X [n, dim] in each row; out = X (X^T Y), [rows, n * compressed], Y trained.
  Node compressed_products(Node x, int64_t dim, int64_t compressed);
  // A layer of xDeepFM's CIN: x is [rows, n * dim], x0 [rows, m * dim]; out [rows, units * dim].
  Node cin_layer(Node x, Node x0, int64_t dim, int64_t units);
  // Sums each vector of x [rows, n * dim]: [rows, n].
  Node vector_sums(Node x, int64_t dim);
  // Embeddings of the columns of x: [rows, cols * dim] (AutoDis), with parameters for each column.
  Node autodis(Node x, int64_t dim, int64_t channels, float temperature, float keep_prob);
  // Multiplies the column ranges of x, which start at `begins`, by 1 - p of a trained probability
  // each, which a loss named `loss` of weight lambda pushes to 1.
  Node variational_dropout(Node x, const std::vector<int64_t>& begins, float lambda,
                           std::string loss);
  // The one of the parts, equally wide, that column `column` of `labels` numbers.
  Node select(const std::vector<Node>& parts, Node labels, int64_t column);

  // ---- sequences ----
  Node repeat(Node x, Space sequence);  // row r's value for each element of row r
  Node segment_sum(Node x);             // over the elements of a row; 0 where there are none
  Node segment_mean(Node x);
  // Sum over the elements of a row of softmax(scores) x: scores [elements, 1], x [elements, n].
  Node attention_pool(Node scores, Node x);
  // [q, s, q - s, q * s] for each element; q [rows, n] belongs to the batch, s [elements, m], n <=
  // m, q extended by zeros. Out [elements, 4 m].
  Node din_features(Node q, Node s);
  // mlp(din_features(q, s), options), with the same parameters, in half the operations.
  Node din_mlp(Node q, Node s, const MlpOptions& options);
  // The dot product of s and the q of its row: [elements, 1].
  Node dot_with_row(Node q, Node s);
  // softmax(q k^T / sqrt(n)) v within each row, by heads of n columns; dropout of the weights.
  Node self_attention(Node q, Node k, Node v, int64_t heads, float dropout = 0.0f);
  // Means over windows of these lengths, one after the other, over the elements of a row: the
  // sum of x divided by max(elements in the window, 1). Out [rows, windows * cols].
  Node window_means(Node x, const std::vector<int64_t>& lengths);

  // ---- losses: each is a summand of what is minimized ----
  // Where the labels and weights of a loss are, and how it is reported.
  struct Target {
    Node labels;  // an input
    int64_t label = 0;
    Node weights = {};  // an input; id -1: all 1
    int64_t weight = 0;
    // Column of labels: where it is above 0 the weight is multiplied by in_space, else by
    // out_space; -1: none.
    int64_t indicator = -1;
    float in_space = 1.0f, out_space = 1.0f;
    float factor = 1.0f;  // factor of the loss, which is the weighted mean over rows
    // 0 in evaluations, which do not compute what it alone depends on.
    bool training_only = false;
    std::string name;  // "" is the kind
  };
  // `sessions` is an id input, for losses that compare rows.
  void minimize(const AnyLoss& loss, Node logits, const Target& target, Node sessions = {});
  // Distillation, in training only: the mean over rows and columns of (x - stopped y)^2; -0.1 times
  // the mean cosine; the norm of the difference over the whole batch.
  enum class Similarity { kSquaredError, kCosine, kEuclid };
  void distillation_loss(Node x, Node y, Similarity similarity, const Target& target);

  int64_t cols(Node node) const;
  void mark_output(Node node);  // value() gives it in graphs of 16 bits too

  // ---- running ----
  // Plans buffers for batches of up to max_rows and draws the initial parameters. Call once.
  // `precision` is that of values, gradients of nodes and matrix products; sums, parameters and
  // their gradients are in fp32, and so is what value() and gradient() give. On a CPU, bf16 is what
  // layers round the factors of their products to; all else is in fp32. The same for int8, which is
  // for inference only and after freeze().
  // For Purpose::kInference there is no room for gradients, and no backward.
  enum class Purpose { kTraining, kInference };
  void prepare(const Context& context, int64_t max_rows, DType precision = DType::kF32,
               Purpose purpose = Purpose::kTraining);
  // Sets the number of rows of the coming run; value() of inputs is then filled by the caller.
  void set_rows(int64_t rows);
  // After set_rows: the elements of a sequence. `offsets` is [rows + 1] on the graph's device, from
  // 0 to `elements`; it is copied. Memory grows where there are more elements than ever before.
  void set_elements(const Context& context, Space sequence, View<const int32_t> offsets,
                    int64_t elements);
  View<int64_t> ids(Node node);  // values of an id input
  // In 16 bits: of inputs, of the logits of losses and of what was marked as output. After an
  // evaluation: not of what only losses of training depend on.
  View<float> value(Node node);
  // The gradient of a trained input, after backward. Other gradients share memory and are gone
  // by then.
  View<float> gradient(Node node);
  // The same of an embedding input, in the graph's precision.
  AnyView matrix(Node node);
  AnyView gradient_matrix(Node node);  // may be clipped in place
  // `draw` numbers the batch: dropout masks depend on (seed, draw) alone.
  void forward(const Context& context, Phase phase, uint64_t draw);
  void backward(const Context& context);  // after a forward pass in training
  // From now on backward gives all gradients multiplied by `scale`, so that small ones do not
  // vanish in fp16.
  void set_loss_scale(float scale);
  // Whether a gradient of the last backward was infinite or not a number; waits for it. In fp16
  // only.
  bool overflowed(const Context& context) const;
  // The loss of the last forward; waits for that, not for a later backward. NaN labels give
  // NaN.
  double loss(const Context& context) const;
  // Its summands, in the order of loss_names().
  std::vector<double> losses(const Context& context) const;
  std::vector<std::string> loss_names() const;

  // For inference: the parameters stay as they are from now on, and forward in Phase::kEval need
  // not read them again.
  void freeze();

  // What layers need to compute in int8 on a CPU: from now on evaluations record it; and it is
  // given to a graph in int8 before freeze().
  void record_inputs();
  LayerRanges recorded_ranges() const;
  void set_input_ranges(const LayerRanges& ranges);
  std::vector<std::string> int8_layers() const;  // that need it

  std::span<const Parameter> parameter_list() const;
  View<float> parameters();
  View<float> parameter_gradients();
  // Running statistics of batch norm and the like: saved, not trained.
  std::span<const Parameter> statistic_list() const;
  View<float> statistics();

  // Floating-point operations of one forward pass, for the share of the ceiling: per row of the
  // batch and, for what is computed for the elements of a sequence, per element. Attention between
  // the elements of a row depends on how many there are.
  double flops_per_row() const;
  double flops_per_element(Space sequence, double mean_length) const;
  // Operations per row of the current batch, with its elements.
  double batch_flops_per_row() const;
  int64_t values_per_row() const;  // values of all nodes of the batch; for memory estimates
  int64_t values_per_element(Space sequence) const;
  std::vector<Space> sequences() const;
  std::string describe() const;  // one line per node

 private:
  friend GraphState& graph_state(Graph& graph);  // nn/graph_state.h
  std::unique_ptr<GraphState> state_;
};

}  // namespace emblem
