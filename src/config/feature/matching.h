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
  bool masks_equal_items = false;  // candidates that are the item of the row do not compete
  bool corrects_scores = false;    // in the loss, by how often items are candidates by chance
  std::string frequency_path;      // how often rows have items; "": as often as they are sampled
  std::string item_id_feature;     // what tells items apart; "": what the sampler does

  int64_t vector_dim() const;  // 0: not known
};

// None where the model does not match.
std::optional<MatchingSpec> matching_of(const config::ModelConfig& model);
// The name of its field: "dssm".
std::string matching_name(const config::ModelConfig& model);
// None where scores are not corrected.
config::LogQCorrection* logq_correction_of(config::ModelConfig* model);
// The candidates of a row are the items of its batch from now on.
void set_in_batch_negative(config::ModelConfig* model);
// Candidates compete whatever they are, by their scores. Returns whether that is a change.
bool remove_corrections(config::ModelConfig* model);

// The same of a model with two towers. Throws Error, which says what `purpose` needs, for others.
MatchingSpec require_towers(const config::ModelConfig& model, const std::string& purpose);

// Removes the tower of items and its feature group: what is left computes vectors of users.
void remove_item_tower(config::ModelConfig* model);

}  // namespace emblem
