// config/groups.h - which feature groups a model reads, and what of them. The checks of a pipeline
// and the builders of models go by it.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline.pb.h"

namespace emblem {

enum class GroupPart {
  kAll,          // embeddings and numbers side by side
  kVectors,      // embeddings alone: a numeric feature would be ignored
  kWide,         // a weight per value, and one for each number
  kWideVectors,  // xdeepfm: embeddings of a WIDE group alone
  kSequence,     // a query and the elements of a sequence
};

struct GroupUse {
  std::string group;
  GroupPart part = GroupPart::kAll;
};

// The groups that the configured model reads, whether they exist or not; optional ones only if they
// do.
std::vector<GroupUse> groups_used(const config::PipelineConfig& config);

bool has_group(const config::ModelConfig& model, const std::string& name);

// Whether a group of `type` names the feature.
bool is_in_group(const config::ModelConfig& model, const std::string& feature,
                 config::FeatureGroupType type);

// dcn_v1, dcn_v2, dnn, mask_net, mmoe, ple, dbmtl, rocket_launching: the group that is the input.
std::string input_group_of(const config::PipelineConfig& config);
// dlrm, wukong: "sparse", or the only group.
std::string sparse_group_of(const config::ModelConfig& model);
// fm, deepfm: "fm" if it exists, else "deep".
std::string pairs_group_of(const config::ModelConfig& model);

}  // namespace emblem
