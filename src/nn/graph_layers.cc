// Building: layers of values, of lists of vectors and of sequences.
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/ops/attention/attention_pool.h"
#include "nn/ops/attention/din.h"
#include "nn/ops/attention/din_linear.h"
#include "nn/ops/attention/self_attention.h"
#include "nn/ops/dense/bias.h"
#include "nn/ops/dense/dropout.h"
#include "nn/ops/dense/elementwise.h"
#include "nn/ops/dense/linear.h"
#include "nn/ops/dense/row_ops.h"
#include "nn/ops/dense/trained_activation.h"
#include "nn/ops/interaction/cross.h"
#include "nn/ops/norm/norm.h"
#include "nn/ops/vectors/autodis.h"
#include "nn/ops/vectors/mix.h"
#include "nn/ops/vectors/segment.h"
#include "nn/ops/vectors/vectors.h"

namespace emblem {
namespace {

// The op's own activation where it can go back through it, else none: a separate op follows.
Activation fused(Activation activation) {
  return can_be_fused(activation) ? activation : Activation::kNone;
}

Node add_linear(GraphState& state, Node x, int64_t units, Bias bias, Activation activation,
                const std::string& name, const Graph::LinearInitial& initial = {}) {
  Tensor* in = state.tensor(x, "linear");
  return state.add_op(name, units, [&](Tensor* out) {
    return std::make_unique<Linear>(in, out, bias, activation, name, state.parameters, initial);
  });
}

Node add_norm(GraphState& state, Node x, MlpOptions::Norm norm, Activation activation,
              const std::string& name) {
  Tensor* in = state.tensor(x, "a normalization");
  return state.add_op(name, in->cols, [&](Tensor* out) -> std::unique_ptr<Op> {
    if (norm == MlpOptions::Norm::kLayer)
      return std::make_unique<LayerNorm>(in, in->cols, out, activation, name, state.parameters);
    return std::make_unique<BatchNorm>(in, out, activation, name, BatchNorm::Affine::kTrained,
                                       state.parameters, state.statistics);
  });
}

Node add_dice(GraphState& state, Node x, const std::string& name) {
  Tensor* in = state.tensor(x, "Dice");
  const Node normalized = state.add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<BatchNorm>(in, out, Activation::kNone, name, BatchNorm::Affine::kNone,
                                       state.parameters, state.statistics);
  });
  Tensor* gate = state.tensor(normalized, "Dice");
  return state.add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<DiceGate>(in, gate, out, name, state.parameters);
  });
}

// `name` is for the parameters of those that have any.
Node add_activation(GraphState& state, Node x, Activation activation, const std::string& name) {
  Tensor* in = state.tensor(x, "activation");
  if (activation == Activation::kNone) return x;
  if (activation.kind == Activation::kDice) return add_dice(state, x, name);
  return state.add_op(name_of(activation), in->cols, [&](Tensor* out) -> std::unique_ptr<Op> {
    if (activation.kind == Activation::kPrelu)
      return std::make_unique<Prelu>(in, out, name, activation.first, state.parameters);
    return std::make_unique<ActivationOp>(in, activation, out);
  });
}

// The activation of a layer whose op did not apply it.
Node finish(GraphState& state, Node x, Activation activation, const std::string& layer) {
  if (can_be_fused(activation)) return x;
  return add_activation(state, x, activation, layer + ".activation");
}

// Parts that have equally many columns.
std::vector<Tensor*> equal_parts(GraphState& state, const char* op,
                                 const std::vector<Node>& parts) {
  EMBLEM_REQUIRE(!parts.empty(), op, ": no parts were given; at least 1 is needed");
  std::vector<Tensor*> tensors;
  for (const Node part : parts) {
    tensors.push_back(state.tensor(part, op));
    const Tensor &first = *tensors.front(), &last = *tensors.back();
    EMBLEM_REQUIRE(first.cols == last.cols, op, ": '", first.name, "' has ", first.cols,
                   " columns and '", last.name, "' ", last.cols, "; they must be equal");
  }
  return tensors;
}

// A node of `space`, computed by an op that connects it with another.
template <class Make>
Node add_connection(GraphState& state, const std::string& name, int64_t cols, Space space,
                    Make&& make) {
  const Node node = state.add_node(name, cols, GraphState::Kind::kComputed, space);
  state.add(make(state.nodes.back().tensor.get()));
  return node;
}

// A node that must belong to a sequence, or else to the batch.
Tensor* element_tensor(GraphState& state, Node node, const char* used_by) {
  Tensor* tensor = state.tensor(node, used_by);
  EMBLEM_REQUIRE(tensor->space != Space{}, used_by, ": '", tensor->name,
                 "' belongs to the batch; expected a node of a sequence");
  return tensor;
}

struct RowAndElement {
  Tensor *q, *s;
};
// q of the batch, s of a sequence.
RowAndElement row_and_element(GraphState& state, Node q, Node s, const char* used_by) {
  const RowAndElement both{state.tensor(q, used_by), element_tensor(state, s, used_by)};
  EMBLEM_REQUIRE(both.q->space == Space{}, used_by, ": '", both.q->name, "' belongs to ",
                 state.name_of_space(both.q->space), "; expected a node of the batch");
  return both;
}

Node add_segment_sum(GraphState& s, Node x, Divide divide, const char* name) {
  Tensor* in = element_tensor(s, x, name);
  return add_connection(s, name, in->cols, {},
                        [&](Tensor* out) { return std::make_unique<SegmentSum>(in, divide, out); });
}

void require_extension(const char* op, const Tensor& q, const Tensor& s) {
  EMBLEM_REQUIRE(q.cols <= s.cols, op, ": the query '", q.name, "' has ", q.cols,
                 " columns, but the elements '", s.name, "' have ", s.cols,
                 "; the query must not be wider");
}

// The activation is one that can_be_fused; `name` is for the parameters.
Node add_din_linear(GraphState& state, Node q, Node s, int64_t units, Bias bias,
                    Activation activation, const std::string& name) {
  const auto [row, element] = row_and_element(state, q, s, "din_mlp");
  require_extension("din_mlp", *row, *element);
  return add_connection(state, name, units, element->space,
                        [&, row = row, element = element](Tensor* out) {
                          return std::make_unique<DinLinear>(row, element, out, bias, activation,
                                                             name, state.parameters);
                        });
}

}  // namespace

Node Graph::linear(Node x, int64_t units, Activation activation, const LinearInitial& initial) {
  const std::string name = state_->next_layer();
  return finish(*state_,
                add_linear(*state_, x, units, Bias::kTrained, fused(activation), name, initial),
                activation, name);
}

Node Graph::linear_without_bias(Node x, int64_t units, std::optional<Initial> initial) {
  return add_linear(*state_, x, units, Bias::kNone, Activation::kNone, state_->next_layer(),
                    {initial, {}});
}

Node Graph::bias(Node x) {
  Tensor* in = state_->tensor(x, "bias");
  const std::string name = state_->next_layer();
  return state_->add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<BiasOp>(in, out, name, state_->parameters);
  });
}

Node Graph::batch_norm(Node x, Activation activation) {
  const std::string name = state_->next_layer();
  return finish(*state_, add_norm(*state_, x, MlpOptions::Norm::kBatch, fused(activation), name),
                activation, name);
}

Node Graph::layer_norm(Node x, Activation activation) {
  const std::string name = state_->next_layer();
  return finish(*state_, add_norm(*state_, x, MlpOptions::Norm::kLayer, fused(activation), name),
                activation, name);
}

// A layer of an MLP, whose linear part is linear(bias, activation, name).
template <class MakeLinear>
static Node add_mlp_layer(Graph& graph, GraphState& state, const MlpOptions& options, size_t layer,
                          MakeLinear&& linear) {
  using Norm = MlpOptions::Norm;
  const std::string name = state.next_layer();
  const Activation last = fused(options.activation);
  const Bias bias = options.bias && options.norm != Norm::kBatch ? Bias::kTrained : Bias::kNone;
  Node x = linear(bias, options.norm == Norm::kNone ? last : Activation::kNone, name);
  if (options.norm != Norm::kNone) x = add_norm(state, x, options.norm, last, name + ".norm");
  x = finish(state, x, options.activation, name);
  if (options.dropout.empty()) return x;
  return graph.dropout(x, options.dropout[options.dropout.size() == 1 ? 0 : layer]);
}

static void check_dropout(const GraphState& state, const MlpOptions& options) {
  const size_t layers = options.hidden_units.size();
  EMBLEM_REQUIRE(options.dropout.size() <= 1 || options.dropout.size() == layers, "mlp '",
                 state.scope, "': ", options.dropout.size(), " dropout ratios for ", layers,
                 " layers; give none, one for all, or one a layer");
}

std::vector<Node> Graph::mlp_layers(Node x, const MlpOptions& options) {
  check_dropout(*state_, options);
  std::vector<Node> outputs;
  for (size_t layer = 0; layer < options.hidden_units.size(); ++layer) {
    x = add_mlp_layer(*this, *state_, options, layer,
                      [&](Bias bias, Activation activation, const std::string& name) {
                        return add_linear(*state_, x, options.hidden_units[layer], bias, activation,
                                          name);
                      });
    outputs.push_back(x);
  }
  return outputs;
}

Node Graph::din_mlp(Node q, Node s, const MlpOptions& options) {
  if (options.hidden_units.empty()) return din_features(q, s);
  check_dropout(*state_, options);
  const Node first = add_mlp_layer(
      *this, *state_, options, 0, [&](Bias bias, Activation activation, const std::string& name) {
        return add_din_linear(*state_, q, s, options.hidden_units[0], bias, activation, name);
      });
  MlpOptions others = options;
  others.hidden_units.erase(others.hidden_units.begin());
  if (others.dropout.size() > 1) others.dropout.erase(others.dropout.begin());
  return mlp(first, others);
}

Node Graph::mlp(Node x, const MlpOptions& options) {
  const std::vector<Node> layers = mlp_layers(x, options);
  return layers.empty() ? x : layers.back();
}

Node Graph::activation(Node x, Activation activation) {
  return add_activation(*state_, x, activation,
                        activation.is_trained() ? state_->next_layer() : "");
}

Node Graph::sigmoid(Node x) { return activation(x, Activation::kSigmoid); }

Node Graph::dropout(Node x, float ratio) {
  Tensor* in = state_->tensor(x, "dropout");
  EMBLEM_REQUIRE(ratio >= 0.0f && ratio < 1.0f, "dropout: the ratio is ", ratio,
                 ", but must be at least 0 and below 1");
  if (ratio == 0.0f) return x;
  const uint64_t stream = state_->ops.size();
  return state_->add_op("dropout", in->cols, [&](Tensor* out) {
    return std::make_unique<Dropout>(in, ratio, stream, out);
  });
}

Node Graph::cross_v1(Node x0, int layers) {
  Tensor* first = state_->tensor(x0, "cross");
  Node x = x0;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = state_->next_layer();
    Tensor* in = state_->tensor(x, "cross");
    x = state_->add_op(name, first->cols, [&](Tensor* out) {
      return std::make_unique<CrossLayer>(first, in, out, name, state_->parameters);
    });
  }
  return x;
}

Node Graph::cross_v2(Node x0, int layers, int64_t rank) {
  Tensor* first = state_->tensor(x0, "cross");
  EMBLEM_REQUIRE(rank >= 0, "cross: the rank is ", rank, ", but must be 0 (a full matrix) or more");
  Node x = x0;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = state_->next_layer();
    Node z = x;
    if (rank > 0) z = add_linear(*state_, z, rank, Bias::kNone, Activation::kNone, name + ".v");
    z = add_linear(*state_, z, first->cols, Bias::kTrained, Activation::kNone,
                   rank > 0 ? name + ".u" : name);
    Tensor *in = state_->tensor(x, "cross"), *product = state_->tensor(z, "cross");
    x = state_->add_op(name, first->cols, [&](Tensor* out) {
      return std::make_unique<CrossCombine>(first, product, in, out);
    });
  }
  return x;
}

// ---- lists of vectors ----

Node Graph::layer_norm_vectors(Node x, int64_t dim) {
  Tensor* in = state_->tensor(x, "layer_norm_vectors");
  require_vectors("layer_norm_vectors", *in, dim);
  const std::string name = state_->next_layer();
  return state_->add_op(name, in->cols, [&](Tensor* out) {
    return std::make_unique<LayerNorm>(in, dim, out, Activation::kNone, name, state_->parameters);
  });
}

Node Graph::mix_vectors(Node x, int64_t dim, int64_t out_vectors) {
  Tensor* in = state_->tensor(x, "mix_vectors");
  require_vectors("mix_vectors", *in, dim);
  const std::string name = state_->next_layer();
  return state_->add_op(name, out_vectors * dim, [&](Tensor* out) {
    return std::make_unique<MixVectors>(in, dim, out, name, state_->parameters);
  });
}

// X (X^T Y) = X (Y^T X)^T
Node Graph::compressed_products(Node x, int64_t dim, int64_t compressed) {
  const Node mixed = mix_vectors(x, dim, compressed);
  Tensor *in = state_->tensor(x, "compressed_products"),
         *other = state_->tensor(mixed, "compressed_products");
  return state_->add_op("vector_products", in->cols / dim * compressed, [&](Tensor* out) {
    return std::make_unique<VectorProducts>(in, other, dim, out);
  });
}

Node Graph::cin_layer(Node x, Node x0, int64_t dim, int64_t units) {
  Tensor *in = state_->tensor(x, "cin_layer"), *first = state_->tensor(x0, "cin_layer");
  require_vectors("cin_layer", *in, dim);
  require_vectors("cin_layer", *first, dim);
  const std::string name = state_->next_layer();
  return state_->add_op(name, units * dim, [&](Tensor* out) {
    return std::make_unique<CinLayer>(in, first, dim, out, name, state_->parameters);
  });
}

Node Graph::vector_sums(Node x, int64_t dim) {
  Tensor* in = state_->tensor(x, "vector_sums");
  require_vectors("vector_sums", *in, dim);
  return state_->add_op("vector_sums", in->cols / dim,
                        [&](Tensor* out) { return std::make_unique<RowSum>(in, out); });
}

Node Graph::autodis(Node x, int64_t dim, int64_t channels, float temperature, float keep_prob) {
  Tensor* in = state_->tensor(x, "autodis");
  EMBLEM_REQUIRE(dim > 0 && channels > 0, "autodis: ", channels, " channels of dimension ", dim,
                 "; at least 1 of each is needed");
  EMBLEM_REQUIRE(temperature > 0.0f, "autodis: the temperature is ", temperature,
                 ", but must be above 0");
  const std::string name = state_->next_layer();
  const AutodisOptions options{dim, channels, temperature, keep_prob};
  return state_->add_op(name, in->cols * dim, [&](Tensor* out) {
    return std::make_unique<Autodis>(in, options, out, name, state_->parameters);
  });
}

// ---- what gates, towers and experts are made of ----

Node Graph::stop_gradient(Node x) {
  Tensor* in = state_->tensor(x, "stop_gradient");
  return state_->add_op("stop_gradient", in->cols,
                        [&](Tensor* out) { return std::make_unique<StopGradient>(in, out); });
}

Node Graph::softmax(Node x) {
  Tensor* in = state_->tensor(x, "softmax");
  return state_->add_op("softmax", in->cols,
                        [&](Tensor* out) { return std::make_unique<Softmax>(in, out); });
}

Node Graph::normalize(Node x) {
  Tensor* in = state_->tensor(x, "normalize");
  return state_->add_op("normalize", in->cols,
                        [&](Tensor* out) { return std::make_unique<Normalize>(in, out); });
}

Node Graph::mix(Node gate, const std::vector<Node>& experts) {
  std::vector<Tensor*> inputs = equal_parts(*state_, "mix", experts);
  Tensor* weights = state_->tensor(gate, "mix");
  EMBLEM_REQUIRE(weights->cols == static_cast<int64_t>(experts.size()), "mix: the gate '",
                 weights->name, "' has ", weights->cols, " columns for ", experts.size(),
                 " experts; they must be equal");
  const int64_t cols = inputs[0]->cols;
  inputs.insert(inputs.begin(), weights);
  return state_->add_op("mix", cols,
                        [&](Tensor* out) { return std::make_unique<Mix>(inputs, out); });
}

Node Graph::select(const std::vector<Node>& parts, Node labels, int64_t column) {
  std::vector<Tensor*> inputs = equal_parts(*state_, "select", parts);
  const int64_t cols = inputs[0]->cols;
  inputs.push_back(state_->tensor(labels, "select"));
  EMBLEM_REQUIRE(state_->nodes[labels.id].kind == GraphState::Kind::kInput, "select: the labels '",
                 inputs.back()->name, "' are not an input");
  EMBLEM_REQUIRE(column >= 0 && column < inputs.back()->cols, "select: column ", column,
                 " of the labels '", inputs.back()->name, "', which have ", inputs.back()->cols);
  return state_->add_op("select", cols,
                        [&](Tensor* out) { return std::make_unique<Select>(inputs, column, out); });
}

// ---- sequences ----

Node Graph::repeat(Node x, Space sequence) {
  GraphState& s = *state_;
  Tensor* in = s.tensor(x, "repeat");
  s.sequence(sequence, "repeat");
  EMBLEM_REQUIRE(in->space == Space{}, "repeat: '", in->name, "' belongs to ",
                 s.name_of_space(in->space), "; expected a node of the batch");
  return add_connection(s, "repeat", in->cols, sequence,
                        [&](Tensor* out) { return std::make_unique<Repeat>(in, out); });
}

Node Graph::segment_sum(Node x) {
  return add_segment_sum(*state_, x, Divide::kNone, "segment_sum");
}
Node Graph::segment_mean(Node x) {
  return add_segment_sum(*state_, x, Divide::kByLength, "segment_mean");
}

Node Graph::attention_pool(Node scores, Node x) {
  GraphState& s = *state_;
  Tensor *weights = element_tensor(s, scores, "attention_pool"),
         *in = element_tensor(s, x, "attention_pool");
  EMBLEM_REQUIRE(weights->space == in->space, "attention_pool: '", weights->name, "' belongs to ",
                 s.name_of_space(weights->space), ", but '", in->name, "' to ",
                 s.name_of_space(in->space));
  EMBLEM_REQUIRE(weights->cols == 1, "attention_pool: the scores '", weights->name, "' have ",
                 weights->cols, " columns; expected 1");
  return add_connection(s, "attention_pool", in->cols, {}, [&](Tensor* out) {
    return std::make_unique<AttentionPool>(weights, in, out);
  });
}

Node Graph::din_features(Node q, Node s) {
  const auto [row, element] = row_and_element(*state_, q, s, "din_features");
  require_extension("din_features", *row, *element);
  return add_connection(*state_, "din_features", 4 * element->cols, element->space,
                        [row = row, element = element](Tensor* out) {
                          return std::make_unique<DinFeatures>(row, element, out);
                        });
}

Node Graph::dot_with_row(Node q, Node s) {
  const auto [row, element] = row_and_element(*state_, q, s, "dot_with_row");
  EMBLEM_REQUIRE(row->cols == element->cols, "dot_with_row: '", row->name, "' has ", row->cols,
                 " columns and '", element->name, "' ", element->cols, "; they must be equal");
  return add_connection(*state_, "dot_with_row", 1, element->space,
                        [row = row, element = element](Tensor* out) {
                          return std::make_unique<DotWithRow>(row, element, out);
                        });
}

Node Graph::self_attention(Node q, Node k, Node v, int64_t heads, float dropout) {
  GraphState& s = *state_;
  Tensor *query = element_tensor(s, q, "self_attention"),
         *key = element_tensor(s, k, "self_attention"),
         *value = element_tensor(s, v, "self_attention");
  for (const Tensor* other : {key, value}) {
    EMBLEM_REQUIRE(other->cols == query->cols, "self_attention: '", query->name, "' has ",
                   query->cols, " columns and '", other->name, "' ", other->cols,
                   "; they must be equal");
  }
  EMBLEM_REQUIRE(heads > 0 && query->cols % heads == 0, "self_attention: '", query->name, "' has ",
                 query->cols, " columns, which do not make ", heads, " equal heads");
  EMBLEM_REQUIRE(query->cols / heads <= SelfAttention::kMostColumns, "self_attention: heads of ",
                 query->cols / heads, " columns; expected at most ", SelfAttention::kMostColumns,
                 "; use more heads");
  EMBLEM_REQUIRE(dropout >= 0.0f && dropout < 1.0f, "self_attention: dropout is ", dropout,
                 ", but must be at least 0 and below 1");
  const uint64_t stream = s.ops.size();
  return s.add_op("self_attention", query->cols, [&](Tensor* out) {
    return std::make_unique<SelfAttention>(query, key, value, heads, dropout, stream, out);
  });
}

Node Graph::window_means(Node x, const std::vector<int64_t>& lengths) {
  Tensor* in = element_tensor(*state_, x, "window_means");
  EMBLEM_REQUIRE(!lengths.empty() && lengths.size() <= WindowMeans::kMostWindows,
                 "window_means: ", lengths.size(), " windows; expected 1 to ",
                 WindowMeans::kMostWindows);
  WindowMeans::Windows windows;
  int64_t end = 0;
  for (const int64_t length : lengths) {
    EMBLEM_REQUIRE(length > 0 && length <= (1 << 24), "window_means: a window of length ", length,
                   "; expected 1 to 16777216");
    windows.ends[windows.count++] = static_cast<int32_t>(end += length);
  }
  return add_connection(*state_, "window_means", windows.count * in->cols, {}, [&](Tensor* out) {
    return std::make_unique<WindowMeans>(in, windows, out);
  });
}

}  // namespace emblem
