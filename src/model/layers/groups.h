// model/layers/groups.h - which feature groups a model reads, and what of them. The checks of a
// pipeline and the builders of models go by it.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

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
  std::string for_numbers = "deep";  // kVectors: the group that numeric features may go to
};

// Null when there is no such group.
const config::FeatureGroupConfig* find_group(const config::ModelConfig& model,
                                             const std::string& name);
bool has_group(const config::ModelConfig& model, const std::string& name);

// Whether a group of `type` names the feature.
bool is_in_group(const config::ModelConfig& model, const std::string& feature,
                 config::FeatureGroupType type);

// The first group, whatever its name.
std::string first_group_of(const config::ModelConfig& model);
// `name`, or the only group.
std::string only_group_or(const config::ModelConfig& model, const std::string& name);

// ModelKind::groups of models that read the first group.
std::vector<GroupUse> reads_first_group(const config::PipelineConfig& config);
// ModelKind::groups of models that read vectors of "sparse", or of the only group, and "dense",
// if it exists besides.
std::vector<GroupUse> reads_sparse_and_dense(const config::PipelineConfig& config);

}  // namespace emblem
