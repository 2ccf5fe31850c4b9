// config/feature/matching.h - models that match users and items, whatever their messages: a tower
// of layers for each, whose vectors' products are scores.
#pragma once

#include <optional>

#include "config/proto/pipeline.pb.h"

namespace emblem {

struct MatchingSpec {
  config::Tower user, item;
  int64_t output_dim = 0;  // 0: vectors are what the MLPs of the towers give
  config::Similarity similarity = config::INNER_PRODUCT;
  float temperature = 1.0f;
  // Whether the items of other rows are candidates.
  bool in_batch_negative = false;
  // Whether features of both towers that name one table read the same.
  bool shares_tables = false;

  int64_t vector_dim() const;  // 0: not known
};

// None where the model does not match.
std::optional<MatchingSpec> matching_of(const config::ModelConfig& model);

}  // namespace emblem
