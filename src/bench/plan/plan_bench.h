// bench/plan/plan_bench.h - predicted against measured step times and memory, for several
// placements of the tables of a model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "comm/communicator.h"
#include "core/device/context.h"

namespace emblem {

// ---- the planner's cost function compared with published results of larger clusters: one constant
// is fitted to 8 GPUs, and 64 and 128 are predicted ----

struct BacktestRow {
  std::string system;  // "64 H100, 8 hosts"
  int gpus = 0;
  int64_t batch = 0;
  double published_ms = 0, predicted_ms = 0;
  bool is_fitted = false;

  double error() const { return predicted_ms / published_ms - 1; }
};

// MLPerf Training, DLRM-DCNv2 (HugeCTR), milliseconds per batch over the whole run, evaluations
// included.
std::vector<BacktestRow> backtest_mlperf();

// "rows": over all ranks. "table": each table on one rank. "replicated": on all. "mixed": large
// ones over all ranks, others on one, tiny ones on all. "columns": cut over all ranks. "owner": on
// one rank, which pools bags. "random", "random2": every table in some way. "planned": as emblem
// plan chooses.
const std::vector<std::string>& plan_kinds();

struct PlanBenchOptions {
  std::vector<int64_t> dims = {16, 128};
  std::vector<int64_t> batches = {512, 2048};  // rows of a rank
  std::vector<std::string> kinds = plan_kinds();
  double seconds = 0.05;        // time for the steps of a cell, in each of 4 turns or more
  double probe_seconds = 0.02;  // time for each measurement of the probe
  // Times a probe and its cells are repeated when the machine became faster or slower
  // meanwhile.
  int repeats = 2;
};

// Called on every rank of a job. Probes once for each dim, then measures all plans in turns. Rank 0
// gets one result per cell.
std::vector<BenchResult> bench_plan(const Context& context, Communicator& control,
                                    Communicator& exchange, const PlanBenchOptions& options);

// What all cells together say.
struct PlanBenchSummary {
  size_t cells = 0, within_15 = 0, within_25 = 0;
  double worst_error = 0, worst_memory_error = 0;
  size_t pairs = 0, pairs_in_order = 0;  // plans of equal ranks, dim and batch that differ by 15 %
  size_t choices = 0, best_choices = 0;  // planned cells; those within 5 % of the fastest plan
  double worst_choice = 1;               // time of a planned cell / the fastest
  double worst_search = 1;               // predicted time found / that of the best of all plans
};
PlanBenchSummary summarize_plans(const std::vector<BenchResult>& results);
std::string to_text(const PlanBenchSummary& summary);
// One line per cell.
std::string plan_table(const std::vector<BenchResult>& results);

}  // namespace emblem
