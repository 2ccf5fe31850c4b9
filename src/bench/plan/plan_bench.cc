#include "bench/plan/plan_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "bench/train/dlrm_workload.h"
#include "comm/bytes.h"
#include "config/load/load.h"
#include "core/math/random.h"
#include "core/system/log.h"
#include "plan/cost/step_times.h"
#include "plan/probe/links.h"
#include "plan/probe/probe.h"
#include "plan/search/search.h"
#include "train/run/rank_exchange.h"

namespace emblem {
namespace {

constexpr double kDenseBytes = 64e6;  // bytes of dense gradients
constexpr double kKeyBytes = 4, kValueBytes = 2;

struct System {
  const char* name;
  int hosts, devices;
  int64_t batch;
  double published_ms;
};

struct Links {
  LinkClass inside, between;
};

// What HugeCTR sends: keys, bags that are pooled by the holders of rows, their gradients, and dense
// gradients, which are added up inside a host first.
double exchange_seconds(const System& system, const Links& links) {
  const DlrmShape shape = mlperf_dcnv2();
  const int ranks = system.hosts * system.devices;
  const double rows = static_cast<double>(system.batch) / ranks;
  const double keys =
      static_cast<double>(std::accumulate(shape.hotness.begin(), shape.hotness.end(), int64_t{0}));
  const double bag_bytes =
      static_cast<double>(shape.table_rows.size()) * static_cast<double>(shape.dim) * kValueBytes;
  const auto seconds = [](int hosts, int devices, const Links& over, double bytes) {
    const int all = hosts * devices;
    const HostGroups groups = even_hosts(hosts, devices);
    Traffic traffic(groups);
    traffic.add(Toward::kHolders, bytes, std::vector<double>(static_cast<size_t>(all), 1.0 / all));
    return described_exchange(over.inside, over.between)(traffic);
  };
  const auto to_all = [&](double bytes) {
    return seconds(system.hosts, system.devices, links, bytes);
  };
  const Links of_network{links.between, links.between};
  double dense = 2 * seconds(1, system.devices, {links.inside, links.inside}, kDenseBytes);
  if (system.hosts > 1)
    dense += 2 * seconds(system.hosts, 1, of_network, kDenseBytes / system.devices);
  return to_all(rows * keys * kKeyBytes) + 2 * to_all(rows * bag_bytes) + dense;
}

// The first system is fitted: what links do not explain is proportional to the rows of a device.
void add_rows(const std::vector<System>& systems, const Links& links,
              std::vector<BacktestRow>& rows) {
  const auto rows_a_device = [](const System& system) {
    return static_cast<double>(system.batch) / (system.hosts * system.devices);
  };
  const System& first = systems.front();
  const double each = std::max(0.0, 1e-3 * first.published_ms - exchange_seconds(first, links)) /
                      rows_a_device(first);
  for (const System& system : systems) {
    const double seconds = each * rows_a_device(system) + exchange_seconds(system, links);
    rows.push_back({system.name, system.hosts * system.devices, system.batch, system.published_ms,
                    1e3 * seconds, &system == &first});
  }
}

constexpr double kAlpha = 1.05;
constexpr int64_t kSampled = 32;      // batches whose keys are counted
constexpr double kOraclePlans = 2e4;  // plans that a search among all of them may try
// Change of step times since the probe above which it is repeated.
constexpr double kMostChange = 0.1;
constexpr int64_t kLarge = 10'000, kTiny = 100;  // rows of tables in mixed plans

// Small layers, so that tables matter; tables of about the same bytes for every dim.
DlrmShape shape_of(int64_t dim) {
  DlrmShape shape = kaggle_dlrm(dim).scaled_down(std::max<int64_t>(1, dim / 16));
  shape.bottom = cat("64, ", dim);
  shape.top = "64, 32";
  return shape;
}

// Large tables over all ranks, others on one, tiny ones on all.
ShardPlan mixed_plan(const Workload& workload, int ranks) {
  ShardPlan plan = plan_held(workload, {Holding::kRows}, ranks);
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    const TableSettings& table = workload.tables[t].settings;
    if (table.capacity < kLarge)
      plan.tables[t] = on_rank(table.name, static_cast<int>(t) % ranks, ranks);
    if (table.capacity < kTiny) plan.tables[t] = on_every_rank(table.name);
  }
  return plan;
}

// Columns that are pooled have no use where a bag is one key.
constexpr std::array kRandomHoldings = {Holding::kRows, Holding::kRank, Holding::kReplicated,
                                        Holding::kColumns, Holding::kPooledRank};

// Every table in some way, on some rank where it is on one.
ShardPlan random_plan(const Workload& workload, int ranks, uint64_t seed) {
  Random random{.seed = seed};
  ShardPlan plan{.ranks = ranks};
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    const Holding holding = kRandomHoldings[random.below(kRandomHoldings.size())];
    TableShards shards = plan_held(workload, {holding}, ranks).tables[t];
    const auto rank = static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
    if (holding == Holding::kRank || holding == Holding::kPooledRank) {
      shards = on_rank(shards.table, rank, ranks);
      shards.pooled_at_owner = holding == Holding::kPooledRank;
    }
    plan.tables.push_back(std::move(shards));
  }
  return plan;
}

ShardPlan plan_of_kind(const std::string& kind, const Workload& workload, int ranks) {
  const auto held = [&](Holding holding) { return plan_held(workload, {holding}, ranks); };
  if (kind == "table") return held(Holding::kRank);
  if (kind == "replicated") return held(Holding::kReplicated);
  if (kind == "columns") return held(Holding::kColumns);
  if (kind == "owner") return held(Holding::kPooledRank);
  if (kind == "mixed") return mixed_plan(workload, ranks);
  if (kind == "random") return random_plan(workload, ranks, 1);
  if (kind == "random2") return random_plan(workload, ranks, 2);
  return held(Holding::kRows);
}

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
        layout_(layout_of(config_)) {
    for (const int64_t rows : options.batches) workloads_.push_back(workload_of_rows(rows));
  }

  std::vector<BenchResult> run() {
    Measured best = measure();
    for (int i = 0; i < options_.repeats && best.change > kMostChange; ++i) {
      if (control_.rank() == 0)
        log_info(cat("steps changed by ", std::lround(100 * best.change),
                     " % between the probe and the measurement; measuring again"));
      Measured again = measure();
      if (again.change < best.change) best = std::move(again);
    }
    std::vector<BenchResult> results;
    for (size_t b = 0; b < options_.batches.size(); ++b)
      for (size_t p = 0; p < best.plans.size(); ++p) results.push_back(result_of(best, p, b));
    return results;
  }

 private:
  struct Measured {
    MachineProfile profile;
    std::vector<std::string> kinds;
    std::vector<ShardPlan> plans;
    std::vector<PlanTimes> times;
    // By how much a step with rows over all ranks was slower or faster than the same one of the
    // probe: of the machine, not of predictions.
    double change = 0;
  };

  // Probes, then runs all plans. Equal on all ranks.
  Measured measure() {
    Measured found{.profile = probe()};
    const CostModel model(found.profile, largest_workload());
    for (const std::string& kind : options_.kinds) {
      if (control_.size() == 1 && !found.kinds.empty()) break;
      found.kinds.push_back(kind);
      found.plans.push_back(kind == "planned"
                                ? search_plan(model, found.profile.memory).plan
                                : plan_of_kind(kind, largest_workload(), control_.size()));
    }
    RankTimer timer(context_, control_, options_.seconds);
    found.times =
        time_steps(timer, {control_, exchange_}, config_, 1, found.plans, probe_options());
    const StepCosts::Held* probed = found.profile.steps.find(Holding::kRows);
    for (size_t p = 0; p < found.kinds.size(); ++p) {
      for (size_t b = 0; b < options_.batches.size() && found.kinds[p] == "rows"; ++b) {
        const double before = probed->seconds.at(static_cast<double>(options_.batches[b])),
                     now = found.times[p].seconds[b];
        found.change = std::max(found.change, std::max(before, now) / std::min(before, now) - 1);
      }
    }
    return found;
  }

  std::vector<Batch> batches_of(int64_t rows, int64_t count, uint64_t seed) const {
    return dlrm_batches(context_, shape_, count, rows, kAlpha, seed);
  }

  Workload workload_of_rows(int64_t rows) const {
    Workload workload = workload_of(config_, layout_, rows, 1);
    WorkloadSampler sampler(workload);
    const int64_t sampled = *std::min_element(options_.batches.begin(), options_.batches.end());
    for (const Batch& batch : batches_of(sampled, kSampled, 1)) sampler.add(workload, batch);
    sampler.finish(workload, 0);
    workload.host_dedup = host_dedup_of(config_.train_config(), control_.hosts(), context_.device);
    return workload;
  }

  // The workload of the largest batch.
  const Workload& largest_workload() const {
    const auto largest = std::max_element(options_.batches.begin(), options_.batches.end());
    return workloads_[static_cast<size_t>(largest - options_.batches.begin())];
  }

  ProbeOptions probe_options() const {
    return {.rows = options_.batches,
            .seconds = options_.probe_seconds,
            .batches = [&](const FeatureLayout&, int64_t rows, int64_t count) {
              return batches_of(rows, count, 100 + static_cast<uint64_t>(control_.rank()));
            }};
  }

  MachineProfile probe() {
    const auto largest = std::max_element(options_.batches.begin(), options_.batches.end());
    const Workload& workload = workloads_[static_cast<size_t>(largest - options_.batches.begin())];
    std::string json =
        to_json(probe_machine(context_, {control_, exchange_}, config_, workload, probe_options()));
    broadcast_bytes(control_, json);
    return parse_machine_profile(json, "probe");
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

  BenchResult result_of(const Measured& found, size_t p, size_t b) const {
    const int64_t rows = options_.batches[b];
    const MachineProfile& profile = found.profile;
    const std::string& kind = found.kinds[p];
    const Prediction predicted = CostModel(profile, workloads_[b]).predict(found.plans[p]);
    const double measured = found.times[p].seconds[b];
    double tables = 0;
    for (const RankBytes& bytes : predicted.bytes) tables = std::max(tables, bytes.tables);
    BenchResult result = begin_result("plan", cat("plan-", profile.transport, "-", profile.ranks(),
                                                  "-", kind, "-d", shape_.dim, "-b", rows));
    result.settings = {{"transport", profile.transport},
                       {"device", profile.device},
                       {"ranks", static_cast<int64_t>(profile.ranks())},
                       {"kind", kind},
                       {"dim", shape_.dim},
                       {"batch", rows},
                       {"threads", static_cast<int64_t>(profile.threads)}};
    const double seconds = predicted.seconds.total();
    result.metrics = {{"measured_seconds", {measured, "s", Better::kLower}},
                      {"predicted_seconds", {seconds, "s", Better::kLower}},
                      {"error", {std::abs(seconds / measured - 1), "", Better::kLower}},
                      {"table_bytes", {found.times[p].table_bytes, "B", Better::kLower}},
                      {"predicted_table_bytes", {tables, "B", Better::kLower}}};
    if (kind == "planned" && profile.ranks() > 1)
      result.metrics.push_back(
          {"search_ratio", {search_ratio(profile, workloads_[b]), "", Better::kLower}});
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
  std::vector<Workload> workloads_;  // by batch size
};

}  // namespace

std::vector<BacktestRow> backtest_mlperf() {
  std::vector<BacktestRow> rows;
  add_rows({{"v4.0, 8 H100, 1 host", 1, 8, 55296, 4.02},
            {"v4.0, 64 H100, 8 hosts", 8, 8, 135168, 2.82},
            {"v4.0, 128 H100, 16 hosts", 16, 8, 135168, 2.05}},
           {parse_link("nvlink4"), parse_link("ndr")}, rows);
  const LinkClass nvlink5 = parse_link("nvlink5=740:31");
  add_rows({{"v5.1, 8 GB200, one NVLink domain", 1, 8, 55296, 2.33},
            {"v5.1, 64 GB200, one NVLink domain", 1, 64, 135168, 1.61}},
           {nvlink5, nvlink5}, rows);
  return rows;
}

const std::vector<std::string>& plan_kinds() {
  static const std::vector<std::string> kinds = {
      "rows", "table", "replicated", "mixed", "columns", "owner", "random", "random2", "planned"};
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
