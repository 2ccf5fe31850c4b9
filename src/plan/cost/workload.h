// plan/cost/workload.h - what a step of a pipeline asks of its tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "data/batch.h"
#include "embedding/settings.h"
#include "plan/cost/key_statistics.h"
#include "plan/search/holders.h"
#include "shard/sharded_lookup.h"

namespace emblem {

struct WorkloadTable {
  TableSettings settings;         // settings of the whole table
  size_t lookup = 0;              // which of the model's lookups reads it
  std::vector<int64_t> features;  // positions in Batch::sparse of those that read it
  // Looked up for elements of sequences, each with bags of its own, about one per key.
  bool is_of_elements = false;
  AllowedHolders allowed;
  DistinctKeys keys;
  double hottest_share = 0;  // share of lookups that the 100 most frequent keys have
  double expected_keys = 0;  // that will have rows

  // Slices of its columns that ranks may hold, one each: as many as ranks, or fewer where it has
  // fewer columns and may be held in no other way. 1: it is not cut.
  int slices(int ranks) const {
    if (!allowed.columns || is_row_wise(settings.rule)) return 1;
    if (allowed.only_columns()) return static_cast<int>(std::min<int64_t>(ranks, settings.dim));
    return settings.dim >= ranks ? ranks : 1;
  }
  // Bags of all features.
  double bags_per_row() const {
    const double features_of_rows = std::max(1.0, static_cast<double>(features.size()));
    return is_of_elements ? keys.lookups_per_row() : features_of_rows;
  }
};

struct Workload {
  int64_t rows = 0;    // rows of a shard of a batch
  int64_t shards = 1;  // shards of a rank
  size_t lookups = 0;  // each with exchanges of its own
  std::vector<WorkloadTable> tables;
  int64_t dense_values = 0;  // gradients and statistics that ranks add up
  int64_t value_bytes = 4;   // size of a float of a row or gradient that is sent
  int64_t dense_bytes = 0;   // memory of layers, their optimizer and a batch
  HostDedup host_dedup = HostDedup::kNone;
  std::string keys_from;  // "64 batches of 512 rows", "power law, alpha 1.05"

  int64_t rows_per_rank() const { return rows * shards; }
};

// Tables, layers and settings; no statistics of keys yet. `config` has passed check_pipeline.
Workload workload_of(const config::PipelineConfig& config, const FeatureLayout& layout,
                     int64_t rows, int64_t shards);

// Tables that cannot be cut into columns are among the others. Those on one rank each are on one
// rank after the other.
ShardPlan plan_held(const Workload& workload, const HeldTables& held, int ranks);

// Samples batches of the pipeline.
class WorkloadSampler {
 public:
  explicit WorkloadSampler(const Workload& workload) : counters_(workload.tables.size()) {}
  void add(const Workload& workload, const Batch& batch);
  // `epoch_rows`: how many the data have in all; 0: not known.
  void finish(Workload& workload, double epoch_rows) const;

 private:
  std::vector<KeyCounter> counters_;
  int64_t batches_ = 0;
};

// The workload without data: keys by a power law, `keys_per_row` for each feature.
void assume_power_law(Workload& workload, double alpha, double keys_per_row = 1);

}  // namespace emblem
