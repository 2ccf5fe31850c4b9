// config/features.h - the features of a pipeline in the order in which a Batch holds them. data/
// fills batches by this layout and model/ reads them by it.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline.pb.h"

namespace emblem {

enum class FeatureKind { kDense, kSparse };

struct FeatureSpec {
  std::string name;
  std::string column;  // the input column it reads
  FeatureKind kind = FeatureKind::kDense;
  int64_t dense_begin =
      0;  // kDense: columns [dense_begin, dense_begin + dense_cols) of Batch::dense
  int64_t dense_cols = 0;
  int64_t sparse_index = 0;      // kSparse: position in Batch::sparse
  config::FeatureConfig config;  // id_feature, or raw_feature (kSparse when it has boundaries)
};

struct FeatureLayout {
  std::vector<FeatureSpec> features;  // in configuration order
  int64_t dense_cols = 0;             // width of Batch::dense
  int64_t sparse_count = 0;           // entries of Batch::sparse

  // Throws with the nearest name when there is no such feature.
  const FeatureSpec& find(const std::string& name) const;
};

// Checks each feature on its own (names unique; exactly one of num_buckets, hash_bucket_size and
// dynamicemb; dims, poolings and types valid) and lays them out. `config` has its runs expanded.
FeatureLayout layout_of(const config::PipelineConfig& config);

}  // namespace emblem
