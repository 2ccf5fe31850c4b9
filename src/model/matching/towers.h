// model/matching/towers.h - what matching models share: towers, scores of candidates, checks.
#pragma once

#include <string>

#include "config/feature/matching.h"
#include "model/models.h"

namespace emblem {

MatchingSpec matching_in(const config::PipelineConfig& config);  // which has such a model

// All groups that the towers read, in the order of the towers.
std::vector<GroupUse> groups_of_towers(const config::PipelineConfig& config);
// The vectors of a tower, which is named by the user's or the item's parameters.
Node add_matching_tower(Graph& graph, ModelInputs& inputs, const std::string& name,
                        const MatchingTower& tower, const MatchingSpec& model);
// What the similarity makes of vectors.
Node add_similarity(Graph& graph, Node vectors, const MatchingSpec& model);
// `items` has a row per item of the batch, sampled ones included; returns those of the rows' own.
Node items_of_rows(Graph& graph, Node items);
// How the rows, with a vector for each user, rank their candidates.
Node add_ranks(Graph& graph, ModelInputs& inputs, Node users, Node items,
               const MatchingSpec& model);

// Throws Error for settings that do not fit each other, the groups or the sampler.
void check_matching(const config::PipelineConfig& config, const FeatureLayout& layout);

}  // namespace emblem
