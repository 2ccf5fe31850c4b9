// Building: layers on lists of vectors.
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/ops/autodis.h"
#include "nn/ops/elementwise.h"
#include "nn/ops/norm.h"
#include "nn/ops/vectors.h"

namespace emblem {

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

}  // namespace emblem
