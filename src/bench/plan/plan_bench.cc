#include "bench/plan/plan_bench.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "bench/train/dlrm_workload.h"
#include "comm/bytes.h"
#include "config/load.h"
#include "core/interrupt.h"
#include "model/batch_view.h"
#include "plan/probe.h"
#include "plan/search.h"
#include "train/batch_stream.h"
#include "train/learner.h"

namespace emblem {
namespace {

constexpr double kAlpha = 1.05;
constexpr int64_t kBatches = 8;   // of a rank, used in turn
constexpr int64_t kSampled = 32;  // batches whose keys are counted
constexpr int kRounds = 3;        // in which all plans are measured in turn
constexpr int64_t kWarmup = 4, kLeastSteps = 4;
constexpr double kOraclePlans = 2e4;             // of a search among all plans
constexpr int64_t kLarge = 10'000, kTiny = 100;  // rows of tables in mixed plans

// Small layers, so that tables matter; tables of about the same bytes for every dim.
DlrmShape shape_of(int64_t dim) {
  DlrmShape shape = kaggle_dlrm(dim).scaled_down(std::max<int64_t>(1, dim / 16));
  shape.bottom = cat("64, ", dim);
  shape.top = "64, 32";
  return shape;
}

ShardPlan plan_of_kind(const std::string& kind, const Workload& workload, int ranks) {
  ShardPlan plan{.ranks = ranks};
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    const TableSettings& table = workload.tables[t].settings;
    const TableShards on_one = on_rank(table.name, static_cast<int>(t) % ranks, ranks);
    const bool is_copied = kind == "replicated" || (kind == "mixed" && table.capacity < kTiny);
    const bool is_on_one =
        kind == "table" || kind == "owner" || (kind == "mixed" && table.capacity < kLarge);
    plan.tables.push_back(is_copied   ? on_every_rank(table.name)
                          : is_on_one ? on_one
                                      : over_all_ranks(table.name, ranks));
    if (kind == "columns") plan.tables.back() = by_columns(table.name, all, ranks);
    plan.tables.back().pooled_at_owner = kind == "owner";
  }
  return plan;
}

// One way to hold the tables, ready to train.
struct PlannedRun {
  std::string kind;
  ShardPlan plan;
  World world;
  std::unique_ptr<Learner> learner;
  std::vector<std::vector<double>> seconds;  // by batch size, of each step
};

class DimBench {
 public:
  DimBench(const Context& context, Communicator& control, Communicator& exchange,
           const PlanBenchOptions& options, int64_t dim)
      : context_(context),
        control_(control),
        exchange_(exchange),
        options_(options),
        shape_(shape_of(dim)),
        config_(parse_pipeline(
            dlrm_pipeline(shape_, options.batches.back(), DlrmTraining{.optimizer = "adagrad"}),
            "bench plan")),
        layout_(layout_of(config_)) {}

  std::vector<BenchResult> run() {
    const MachineProfile profile = probe();
    make_runs(profile);
    for (int round = 0; round < kRounds; ++round)
      for (size_t b = 0; b < options_.batches.size(); ++b)
        for (PlannedRun& run : runs_) measure(run, b);
    std::vector<BenchResult> results;
    for (size_t b = 0; b < options_.batches.size(); ++b)
      for (PlannedRun& run : runs_) results.push_back(result_of(run, b, profile));
    return results;
  }

 private:
  std::vector<Batch> batches_of(int64_t rows, int64_t count, uint64_t seed) const {
    return dlrm_batches(context_, shape_, count, rows, kAlpha, seed);
  }
  uint64_t own_seed() const { return 100 + static_cast<uint64_t>(control_.rank()); }

  Workload workload_of_rows(int64_t rows) const {
    Workload workload = workload_of(config_, layout_, rows, 1);
    WorkloadSampler sampler(workload);
    const int64_t sampled = *std::min_element(options_.batches.begin(), options_.batches.end());
    for (const Batch& batch : batches_of(sampled, kSampled, 1)) sampler.add(workload, batch);
    sampler.finish(workload, 0);
    return workload;
  }

  MachineProfile probe() {
    const int64_t most = *std::max_element(options_.batches.begin(), options_.batches.end());
    ProbeOptions probing{.rows = options_.batches, .seconds = options_.probe_seconds};
    probing.batches = [&](const FeatureLayout&, int64_t rows, int64_t count) {
      return batches_of(rows, count, own_seed());
    };
    std::string json = to_json(
        probe_machine(context_, {control_, exchange_}, config_, workload_of_rows(most), probing));
    broadcast_bytes(control_, json);
    return parse_machine_profile(json, "probe");
  }

  void make_runs(const MachineProfile& profile) {
    const int64_t most = *std::max_element(options_.batches.begin(), options_.batches.end());
    const Workload workload = workload_of_rows(most);
    const int ranks = control_.size();
    runs_.reserve(options_.kinds.size());
    for (const std::string& kind : options_.kinds) {
      if (ranks == 1 && kind != options_.kinds.front()) continue;
      PlannedRun& run = runs_.emplace_back();
      run.kind = kind;
      run.plan = kind == "planned" ? search_plan(CostModel(profile, workload), profile.memory).plan
                                   : plan_of_kind(kind, workload, ranks);
      run.world = {.ranks = &control_, .shards = ranks, .plan = &run.plan, .exchange = &exchange_};
      run.learner = std::make_unique<Learner>(context_, config_, layout_, most, &run.world);
      run.seconds.resize(options_.batches.size());
    }
  }

  void measure(PlannedRun& run, size_t b) {
    const std::vector<Batch> batches = batches_of(options_.batches[b], kBatches, own_seed());
    size_t next = 0;
    BatchStream stream(context_,
                       [&]() -> const Batch* { return &batches[next++ % batches.size()]; });
    const auto step = [&] {
      stream.next();
      const ModelBatch* shard = &stream.batch();
      const double begin = seconds_now();
      const std::vector<int64_t> rows = run.world.gather(std::vector<int64_t>{shard->rows});
      run.learner->step_of_ranks({&shard, 1}, rows, 0);
      context_.synchronize();
      return seconds_now() - begin;
    };
    control_.barrier();
    double last = 0;
    for (int64_t i = 0; i < kWarmup; ++i) last = step();
    auto steps = std::max(kLeastSteps,
                          static_cast<int64_t>(options_.seconds / kRounds / std::max(last, 1e-5)));
    control_.broadcast(Context{}, {&steps, sizeof(steps)}, 0);
    for (int64_t i = 0; i < steps; ++i) run.seconds[b].push_back(step());
    if (interrupted()) throw Error(ErrorCode::kCancelled, "bench plan: interrupted");
  }

  // Of the rank that holds most.
  double most_table_bytes(const PlannedRun& run) {
    double own = 0;
    for (const Table* table : run.learner->model().tables())
      own += static_cast<double>(table->bytes());
    return median_of_slowest(control_, {own});
  }

  // Predicted time of the plan found / that of the best plan, for as many tables as can be tried.
  double search_ratio(const MachineProfile& profile, Workload workload) const {
    const double choices = profile.ranks() + 3;
    size_t tables = 0;
    for (double plans = choices; plans <= kOraclePlans; plans *= choices) ++tables;
    workload.tables.resize(std::min(tables, workload.tables.size()));
    const CostModel model(profile, workload);
    const auto best = search_all_plans(model, profile.memory);
    return best ? search_plan(model, profile.memory).prediction.seconds.total() /
                      best->prediction.seconds.total()
                : 1.0;
  }

  BenchResult result_of(PlannedRun& run, size_t b, const MachineProfile& profile) {
    const int64_t rows = options_.batches[b];
    const Workload workload = workload_of_rows(rows);
    const Prediction predicted = CostModel(profile, workload).predict(run.plan);
    const double measured = median_of_slowest(control_, run.seconds[b]);
    double tables = 0;
    for (const RankBytes& bytes : predicted.bytes) tables = std::max(tables, bytes.tables);
    BenchResult result = begin_result("plan", cat("plan-", profile.transport, "-", profile.ranks(),
                                                  "-", run.kind, "-d", shape_.dim, "-b", rows));
    result.settings = {{"transport", profile.transport},
                       {"device", profile.device},
                       {"ranks", static_cast<int64_t>(profile.ranks())},
                       {"kind", run.kind},
                       {"dim", shape_.dim},
                       {"batch", rows},
                       {"threads", static_cast<int64_t>(profile.threads)}};
    const double seconds = predicted.seconds.total();
    result.metrics = {{"measured_seconds", {measured, "s", Better::kLower}},
                      {"predicted_seconds", {seconds, "s", Better::kLower}},
                      {"error", {std::abs(seconds / measured - 1), "", Better::kLower}},
                      {"table_bytes", {most_table_bytes(run), "B", Better::kLower}},
                      {"predicted_table_bytes", {tables, "B", Better::kLower}}};
    if (run.kind == "planned" && run.plan.ranks > 1)
      result.metrics.push_back(
          {"search_ratio", {search_ratio(profile, workload), "", Better::kLower}});
    for (const NamedPart& part : step_parts())
      result.stages.push_back({part.name, predicted.seconds.*part.seconds});
    return result;
  }

  const Context context_;
  Communicator& control_;
  Communicator& exchange_;
  const PlanBenchOptions& options_;
  const DlrmShape shape_;
  const config::PipelineConfig config_;
  const FeatureLayout layout_;
  std::vector<PlannedRun> runs_;
};

}  // namespace

const std::vector<std::string>& plan_kinds() {
  static const std::vector<std::string> kinds = {"rows",    "table", "replicated", "mixed",
                                                 "columns", "owner", "planned"};
  return kinds;
}

std::vector<BenchResult> bench_plan(const Context& context, Communicator& control,
                                    Communicator& exchange, const PlanBenchOptions& options) {
  std::vector<BenchResult> all;
  for (const int64_t dim : options.dims) {
    std::vector<BenchResult> results = DimBench(context, control, exchange, options, dim).run();
    all.insert(all.end(), results.begin(), results.end());
  }
  if (control.rank() != 0) all.clear();
  return all;
}

}  // namespace emblem
