// config/feature/sequences.h - which features have equally many elements in a row.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/feature/features.h"

namespace emblem {

// A feature group of queries and sequences: a SEQUENCE or JAGGED_SEQUENCE group, or one of the
// sequence_groups of a DEEP group.
struct SequenceGroup {
  std::string name;   // sequence_groups: the parent's when there is one and it has no name
  std::string owner;  // the feature group that contains it, or itself
  std::vector<std::string> features;
  std::string suffix;  // embedding_name_suffix, the parent's if it has none
  bool nested = false;
  // max_seq_length of each encoder that reads it; 0: all elements.
  std::vector<int64_t> limits;
};

std::vector<SequenceGroup> sequence_groups_of(const config::ModelConfig& model);

// What the readers of a sequence, those of all groups with one of its features, read at most; 0:
// all elements. Throws Error when they differ.
int64_t reading_limit(const config::ModelConfig& model, const SequenceSpec& sequence,
                      std::span<const FeatureSpec> features);

// Sets `sequence`, and of numbers dense_begin, of `features`, whose `settings` are read.
// `names[i]` is the sequence_feature of features[i], "" when it has none.
// Features of one sequence_feature, and of one SequenceGroup, belong together.
std::vector<SequenceSpec> lay_out_sequences(const config::PipelineConfig& config,
                                            std::span<const std::string> names,
                                            std::span<FeatureSpec> features);

}  // namespace emblem
