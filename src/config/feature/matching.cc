#include "config/feature/matching.h"

namespace emblem {
namespace {

// What the messages of matching models share.
template <class Model>
MatchingSpec shared_by_matching(const Model& model) {
  MatchingSpec spec;
  spec.user = model.user_tower();
  spec.item = model.item_tower();
  spec.output_dim = model.output_dim();
  spec.similarity = model.similarity();
  spec.temperature = model.temperature();
  spec.in_batch_negative = model.in_batch_negative();
  return spec;
}

}  // namespace

int64_t MatchingSpec::vector_dim() const {
  if (output_dim > 0) return output_dim;
  const int layers = user.mlp().hidden_units_size();
  return layers == 0 ? 0 : user.mlp().hidden_units(layers - 1);
}

std::optional<MatchingSpec> matching_of(const config::ModelConfig& model) {
  if (model.has_dssm()) return shared_by_matching(model.dssm());
  if (!model.has_dssm_v2()) return std::nullopt;
  MatchingSpec spec = shared_by_matching(model.dssm_v2());
  spec.shares_tables = true;
  return spec;
}

}  // namespace emblem
