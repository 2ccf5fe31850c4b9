#include "nn/graph_sequence.h"

#include "nn/graph.h"
#include "nn/ops/attention_pool.h"
#include "nn/ops/din.h"
#include "nn/ops/din_linear.h"
#include "nn/ops/segment.h"
#include "nn/ops/self_attention.h"

namespace emblem {
namespace {

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

}  // namespace

Node Graph::repeat(Node x, Space sequence) {
  GraphState& s = *state_;
  Tensor* in = s.tensor(x, "repeat");
  s.sequence(sequence, "repeat");
  EMBLEM_REQUIRE(in->space == Space{}, "repeat: '", in->name, "' belongs to ",
                 s.name_of_space(in->space), "; expected a node of the batch");
  return add_connection(s, "repeat", in->cols, sequence,
                        [&](Tensor* out) { return std::make_unique<Repeat>(in, out); });
}

static Node add_segment_sum(GraphState& s, Node x, Divide divide, const char* name) {
  Tensor* in = element_tensor(s, x, name);
  return add_connection(s, name, in->cols, {},
                        [&](Tensor* out) { return std::make_unique<SegmentSum>(in, divide, out); });
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

static void require_extension(const char* op, const Tensor& q, const Tensor& s) {
  EMBLEM_REQUIRE(q.cols <= s.cols, op, ": the query '", q.name, "' has ", q.cols,
                 " columns, but the elements '", s.name, "' have ", s.cols,
                 "; the query must not be wider");
}

Node Graph::din_features(Node q, Node s) {
  const auto [row, element] = row_and_element(*state_, q, s, "din_features");
  require_extension("din_features", *row, *element);
  return add_connection(*state_, "din_features", 4 * element->cols, element->space,
                        [row = row, element = element](Tensor* out) {
                          return std::make_unique<DinFeatures>(row, element, out);
                        });
}

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
