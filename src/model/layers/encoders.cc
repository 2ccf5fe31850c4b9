#include "model/layers/encoders.h"

#include "emblem/error.h"
#include "model/layers/layers.h"

namespace emblem {
namespace {

using config::SeqEncoderConfig;

void require_query(const Graph& graph, const std::string& scope, const SequenceInputs& inputs) {
  EMBLEM_REQUIRE(inputs.query.id >= 0, scope,
                 ": attention needs a query, but the group has sequence features only; add a "
                 "feature that is not a sequence");
  EMBLEM_REQUIRE(graph.cols(inputs.query) <= graph.cols(inputs.sequence), scope, ": the query has ",
                 graph.cols(inputs.query), " columns and the sequence ",
                 graph.cols(inputs.sequence), "; the query must not be wider");
}

Node add_simple_attention(Graph& graph, const std::string& scope, const SequenceInputs& inputs) {
  require_query(graph, scope, inputs);
  EMBLEM_REQUIRE(graph.cols(inputs.query) == graph.cols(inputs.sequence), scope,
                 ": simple_attention needs a query as wide as the sequence, but they have ",
                 graph.cols(inputs.query), " and ", graph.cols(inputs.sequence), " columns");
  return graph.attention_pool(graph.dot_with_row(inputs.query, inputs.sequence), inputs.sequence);
}

Node add_pooling(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
                 const config::PoolingEncoder& encoder) {
  if (encoder.pooling_type() == "sum") return graph.segment_sum(inputs.sequence);
  EMBLEM_REQUIRE(encoder.pooling_type() == "mean", scope, ": pooling_type is \"",
                 encoder.pooling_type(), "\"; use mean or sum");
  return graph.segment_mean(inputs.sequence);
}

Node add_self_attention(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
                        const config::SelfAttentionEncoder& encoder) {
  const int64_t width = encoder.multihead_attn_dim(), heads = encoder.num_heads();
  EMBLEM_REQUIRE(heads > 0 && width > 0 && width % heads == 0, scope, ": multihead_attn_dim is ",
                 width, ", which ", heads, " heads do not divide");
  // As in torch's MultiheadAttention, whose input projections are one matrix.
  const Graph::LinearInitial in_projection{Initial::xavier_uniform(width, 3 * width),
                                           Initial::zeros()};
  const Graph::LinearInitial out_projection{Initial::linear(width), Initial::zeros()};
  Node projected[3];
  const char* names[] = {".query", ".key", ".value"};
  for (int i = 0; i < 3; ++i) {
    graph.set_scope(scope + names[i]);
    projected[i] =
        graph.linear(graph.linear(inputs.sequence, width), width, Activation::kNone, in_projection);
  }
  const Node attended =
      graph.self_attention(projected[0], projected[1], projected[2], heads, encoder.dropout());
  graph.set_scope(scope + ".output");
  return graph.segment_mean(graph.linear(attended, width, Activation::kNone, out_projection));
}

}  // namespace

Node add_din(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
             const config::MLP& attn_mlp) {
  require_query(graph, scope, inputs);
  const Node hidden = add_din_mlp(graph, scope, inputs.query, inputs.sequence, attn_mlp);
  graph.set_scope(scope);
  return graph.attention_pool(graph.linear(hidden, 1), inputs.sequence);
}

Node add_multi_window_din(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
                          const std::vector<int64_t>& windows, const config::MLP& attn_mlp) {
  require_query(graph, scope, inputs);
  EMBLEM_REQUIRE(!windows.empty(), scope,
                 ": there is no windows_len; give the length of each window");
  const int64_t width = graph.cols(inputs.sequence), query_width = graph.cols(inputs.query);
  const Node all = graph.din_features(inputs.query, inputs.sequence);  // [q, s, q - s, q * s]
  const Node query = graph.slice(all, 0, width), products = graph.slice(all, 3 * width, 4 * width);
  const Node hidden =
      add_mlp(graph, scope, graph.concat({inputs.sequence, products, query}), attn_mlp);
  graph.set_scope(scope);
  const Node weights = graph.activation(graph.linear(hidden, 1), activation_from_name("nn.PReLU"));
  const Node means = graph.window_means(graph.mix(weights, {inputs.sequence}), windows);
  std::vector<Node> parts = {means, inputs.query};
  if (query_width < width)  // the query's columns are extended by zeros
    parts.push_back(graph.scale(graph.slice(means, 0, width - query_width), 0.0f));
  return graph.concat(parts);
}

std::string encoder_input_of(const SeqEncoderConfig& encoder) {
  switch (encoder.seq_module_case()) {
    case SeqEncoderConfig::kDinEncoder:
      return encoder.din_encoder().input();
    case SeqEncoderConfig::kSimpleAttention:
      return encoder.simple_attention().input();
    case SeqEncoderConfig::kPoolingEncoder:
      return encoder.pooling_encoder().input();
    case SeqEncoderConfig::kSelfAttentionEncoder:
      return encoder.self_attention_encoder().input();
    case SeqEncoderConfig::kMultiWindowDinEncoder:
      return encoder.multi_window_din_encoder().input();
    default:
      return "";
  }
}

Node add_encoder(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
                 const SeqEncoderConfig& encoder) {
  switch (encoder.seq_module_case()) {
    case SeqEncoderConfig::kDinEncoder:
      return add_din(graph, scope, inputs, encoder.din_encoder().attn_mlp());
    case SeqEncoderConfig::kSimpleAttention:
      return add_simple_attention(graph, scope, inputs);
    case SeqEncoderConfig::kPoolingEncoder:
      return add_pooling(graph, scope, inputs, encoder.pooling_encoder());
    case SeqEncoderConfig::kSelfAttentionEncoder:
      return add_self_attention(graph, scope, inputs, encoder.self_attention_encoder());
    case SeqEncoderConfig::kMultiWindowDinEncoder:
      return add_multi_window_din(graph, scope, inputs,
                                  {encoder.multi_window_din_encoder().windows_len().begin(),
                                   encoder.multi_window_din_encoder().windows_len().end()},
                                  encoder.multi_window_din_encoder().attn_mlp());
    default:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              scope +
                  ": a sequence encoder is empty; set one of din_encoder, simple_attention, "
                  "pooling_encoder, self_attention_encoder, multi_window_din_encoder");
}

}  // namespace emblem
