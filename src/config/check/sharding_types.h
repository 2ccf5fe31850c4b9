// config/check/sharding_types.h - in which ways ranks may hold the rows of a feature's table, in
// TorchEasyRec's words.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

namespace emblem {

struct ShardingKinds {
  bool row_wise = true, table_wise = true, column_wise = true, data_parallel = true;
  // Kinds of TorchRec that are asked for and that emblem does not have, or not with the optimizer
  // of the embeddings. Where there are no others, all of the above are allowed.
  std::vector<std::string> unsupported;

  bool operator==(const ShardingKinds&) const = default;
};

// The kinds of embedding_constraints of the feature, else of
// train_config.global_embedding_constraints, else all. Throws Error for a word that TorchRec
// does not have.
ShardingKinds sharding_kinds_of(const config::FeatureConfig& feature,
                                const config::TrainConfig& train);

// One line for each set of kinds that is asked for and cannot be had: which, of which features, and
// what happens instead.
std::vector<std::string> unsupported_sharding(const config::PipelineConfig& config);

}  // namespace emblem
