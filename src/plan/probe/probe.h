// plan/probe/probe.h - measures what plans cost, on the machines and over the transport of a
// training, with all its ranks at work at the same time.
#pragma once

#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"
#include "data/batch.h"
#include "plan/cost/workload.h"
#include "plan/probe/machine_profile.h"
#include "plan/probe/rank_timer.h"

namespace emblem {

// `count` batches of `rows` rows for this rank.
using MakeBatches =
    std::function<std::vector<Batch>(const FeatureLayout& layout, int64_t rows, int64_t count)>;

struct ProbeOptions {
  std::vector<int64_t> rows;  // rows of a batch, for the model's own pass
  double seconds = 0.05;      // time for each of some hundred measurements
  MakeBatches batches;
};

// The ranks of a probe: in host memory, and of the context's device, which may be the same.
struct ProbeRanks {
  Communicator& control;
  Communicator& exchange;
};

// Called on every rank. `workload` has statistics of keys; `config` has passed check_pipeline. The
// profile is complete on rank 0 only. Needs memory for the model's tables once, over all ranks.
MachineProfile probe_machine(const Context& context, const ProbeRanks& ranks,
                             const config::PipelineConfig& config, const Workload& workload,
                             const ProbeOptions& options);

// Its parts.
ExchangeCosts probe_exchange(RankTimer& timer, Communicator& exchange);
Curve probe_dense_sum(RankTimer& timer, const Context& context, Communicator& ranks,
                      int64_t values);
std::vector<TableCosts> probe_tables(RankTimer& timer, const Workload& workload);
// `tables` have been probed: what the rows of a rank's own batch cost is taken off.
PassCosts probe_pass(RankTimer& timer, const config::PipelineConfig& config,
                     const Workload& workload, const std::vector<TableCosts>& tables,
                     const ProbeOptions& options);
// Whole steps of all ranks, with the tables held in every way for which there is memory. `profile`
// has what was probed before: tables and memory, which must be equal on all ranks.
StepCosts probe_step(RankTimer& timer, const ProbeRanks& ranks,
                     const config::PipelineConfig& config, const Workload& workload,
                     const MachineProfile& profile, const ProbeOptions& options);
std::vector<MemoryPool> probe_memory(const Context& context, Communicator& ranks);

// ---- the data of a pipeline, as far as planning reads them ----

// Up to `count` batches of `rows` rows, of stream `stream` of `streams`; the first ones again where
// the data have fewer.
std::vector<Batch> read_batches(const config::PipelineConfig& config, const FeatureLayout& layout,
                                int64_t rows, int64_t count, int64_t stream, int64_t streams);

// The workload with statistics of keys from `batches` batches, each of a rank's rows; 0: keys by a
// power law with exponent `alpha`. Throws Error where the data are a stream.
Workload sample_workload(const config::PipelineConfig& config, const FeatureLayout& layout,
                         int64_t rows, int64_t shards, int64_t batches, double alpha);

// The shape of a training on `ranks` ranks: rows of a shard, and shards of a rank.
struct BatchShape {
  int64_t rows = 0, shards = 1;
};
BatchShape batch_shape_of(const config::PipelineConfig& config, int ranks);

}  // namespace emblem
