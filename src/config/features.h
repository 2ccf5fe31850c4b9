// config/features.h - the features of a pipeline in the order in which a Batch holds them. data/
// fills batches by this layout and model/ reads them by it.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline.pb.h"
#include "config/semantics.h"

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
  Semantics semantics;                // how columns become features

  // Throws with the nearest name when there is no such feature.
  const FeatureSpec& find(const std::string& name) const;
};

// Checks each feature on its own (names unique and fit for files; exactly one of num_buckets,
// hash_bucket_size and dynamicemb; dims, poolings and types valid) and lays them out. `config` has
// its runs expanded.
FeatureLayout layout_of(const config::PipelineConfig& config);

// The table that a feature with an embedding reads in DEEP groups; in WIDE groups it is NAME_wide.
std::string table_name_of(const config::FeatureConfig& feature);

// embedding_dim of an id or raw feature; 0 when it has none.
int64_t embedding_dim_of(const config::FeatureConfig& feature);

}  // namespace emblem
