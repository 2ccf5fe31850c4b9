// config/feature/matching.h - models that match users and items, whatever their messages: a tower
// of layers for each, whose vectors' products are scores.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

namespace emblem {

struct MatchingTower {
  std::vector<std::string> groups;  // that it reads
  config::MLP mlp;                  // the layers that end in vectors
  std::string mlp_field = "mlp";    // where they are configured
};

struct MatchingSpec {
  MatchingTower user, item;
  bool has_item_tower = true;  // a model that is served with an index has the tower of users alone
  int64_t output_dim = 0;      // 0: vectors are what the MLPs of the towers give
  int64_t vectors = 1;         // of a user
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
// The candidates of a row are the items of its batch from now on.
void set_in_batch_negative(config::ModelConfig* model);

// The same of a model with two towers. Throws Error, which says what `purpose` needs, for others.
MatchingSpec require_towers(const config::ModelConfig& model, const std::string& purpose);

// Removes the tower of items and its feature group: what is left computes vectors of users.
void remove_item_tower(config::ModelConfig* model);

}  // namespace emblem
