// plan/sample.h - the data of a pipeline, as far as planning reads them.
#pragma once

#include "plan/probe.h"
#include "plan/workload.h"

namespace emblem {

// Up to `count` batches of `rows` rows, of stream `stream` of `streams`; the first ones again where
// the data have fewer.
std::vector<Batch> read_batches(const config::PipelineConfig& config, const FeatureLayout& layout,
                                int64_t rows, int64_t count, int64_t stream, int64_t streams);

// The workload with statistics of keys from `batches` batches, each of a rank's rows; 0: keys by a
// power law with exponent `alpha`. Throws Error where the data are a stream.
Workload sample_workload(const config::PipelineConfig& config, const FeatureLayout& layout,
                         int64_t rows, int64_t shards, int64_t batches, double alpha);

// Of a training on `ranks` ranks: rows of a shard, and shards of a rank.
struct BatchShape {
  int64_t rows = 0, shards = 1;
};
BatchShape batch_shape_of(const config::PipelineConfig& config, int ranks);

}  // namespace emblem
