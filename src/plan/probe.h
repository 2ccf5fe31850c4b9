// plan/probe.h - measures what plans cost, on the machines and over the transport of a training,
// with all its ranks at work at the same time.
#pragma once

#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "config/features.h"
#include "config/pipeline.pb.h"
#include "core/context.h"
#include "data/batch.h"
#include "plan/machine_profile.h"
#include "plan/rank_timer.h"
#include "plan/workload.h"

namespace emblem {

// `count` batches of `rows` rows for this rank.
using MakeBatches =
    std::function<std::vector<Batch>(const FeatureLayout& layout, int64_t rows, int64_t count)>;

struct ProbeOptions {
  std::vector<int64_t> rows;  // of a batch, for the model's own pass
  double seconds = 0.05;      // of each of some hundred measurements
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

}  // namespace emblem
