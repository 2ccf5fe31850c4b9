// model/dense_embedding.h - vectors of numeric features, made by layers instead of tables.
#pragma once

#include <cstdint>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "nn/graph.h"

namespace emblem {

struct DenseEmbedding {
  enum class Kind { kNone, kMlp, kAutoDis } kind = Kind::kNone;
  int64_t dim = 0;
  config::AutoDisEmbedding autodis;
};

// What `mlp {}` or `autodis {}` of a feature asks for.
DenseEmbedding dense_embedding_of(const FeatureSpec& feature);

// x is [rows, n]; out [rows, dim] (mlp) or [rows, n * dim] (autodis), named by the current scope.
Node add_dense_embedding(Graph& graph, Node x, const DenseEmbedding& embedding);

}  // namespace emblem
