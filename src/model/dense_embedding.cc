#include "model/dense_embedding.h"

namespace emblem {

DenseEmbedding dense_embedding_of(const FeatureSpec& feature) {
  const FeatureSettings& settings = feature.settings;
  DenseEmbedding embedding{.dim = settings.embedding_dim};
  if (settings.mlp) embedding.kind = DenseEmbedding::Kind::kMlp;
  if (settings.autodis) {
    embedding.kind = DenseEmbedding::Kind::kAutoDis;
    embedding.autodis = *settings.autodis;
  }
  return embedding;
}

Node add_dense_embedding(Graph& graph, Node x, const DenseEmbedding& embedding) {
  if (embedding.kind == DenseEmbedding::Kind::kMlp)
    return graph.linear_without_bias(x, embedding.dim,
                                     Initial::xavier_normal(graph.cols(x), embedding.dim));
  const config::AutoDisEmbedding& autodis = embedding.autodis;
  return graph.autodis(x, embedding.dim, autodis.num_channels(), autodis.temperature(),
                       autodis.keep_prob());
}

}  // namespace emblem
