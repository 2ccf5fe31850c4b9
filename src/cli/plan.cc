#include <cstdio>
#include <memory>

#include "bench/plan/plan_bench.h"
#include "bench/result/result_table.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "config/check/sharding_types.h"
#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "plan/probe/probe.h"
#include "plan/search/cluster.h"
#include "plan/search/search.h"
#include "train/run/rank_exchange.h"

namespace emblem {
namespace {

struct PlanArguments : PipelineOptions {
  std::string probe, plan, out;
  int64_t sample = 64, memory = 0;
  double alpha = 1.05;
  bool explain = false, backtest = false;
  std::vector<int> hosts;
  int devices = 8;
  std::vector<std::string> links;
};

std::string fixed_text(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string milliseconds(double seconds) { return fixed_text(1e3 * seconds, 3); }

void print_tables(const CostModel& model, const FoundPlan& found) {
  std::vector<std::vector<std::string>> rows = {
      {"table", "keys", "dim", "a batch", "distinct", "hottest 100", "held"}};
  const Workload& workload = model.workload();
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    const WorkloadTable& table = workload.tables[t];
    const double batch = static_cast<double>(workload.rows);
    rows.push_back(
        {table.settings.name, format_count(table.expected_keys), std::to_string(table.settings.dim),
         format_count(batch * table.keys.lookups_per_row()), format_count(table.keys.at(batch)),
         table.hottest_share > 0 ? fixed_text(100 * table.hottest_share, 0) + " %" : "",
         describe(found.plan.tables[t])});
  }
  std::printf("%s\n", align_columns(rows).c_str());
}

// Parts by name, with the overlap where there is one.
std::vector<std::pair<std::string, double>> parts_of(const StepParts& seconds) {
  std::vector<std::pair<std::string, double>> parts;
  for (const NamedPart& part : step_parts()) parts.emplace_back(part.name, seconds.*part.seconds);
  if (seconds.overlap != 0) parts.emplace_back("overlap", seconds.overlap);
  return parts;
}

void print_prediction(const CostModel& model, const FoundPlan& found,
                      const std::vector<MemoryPool>& pools) {
  const Prediction& prediction = found.prediction;
  const double seconds = prediction.seconds.total();
  const double samples =
      static_cast<double>(model.workload().rows_per_rank() * model.ranks()) / seconds;
  std::printf("predicted %s ms per step, %s samples/s\n", milliseconds(seconds).c_str(),
              format_count(samples).c_str());
  std::vector<std::vector<std::string>> parts = {{"part"}, {"ms"}};
  for (const auto& [name, part] : parts_of(prediction.seconds)) {
    parts[0].push_back(name);
    parts[1].push_back(milliseconds(part));
  }
  std::printf("%s\n", align_columns(parts).c_str());
  std::vector<std::vector<std::string>> ranks = {
      {"rank", "tables", "exchange", "layers", "bytes", "gather + update ms"}};
  for (size_t r = 0; r < prediction.bytes.size(); ++r) {
    const RankBytes& bytes = prediction.bytes[r];
    ranks.push_back({std::to_string(r), format_bytes(bytes.tables), format_bytes(bytes.exchange),
                     format_bytes(bytes.dense), format_bytes(bytes.total()),
                     milliseconds(prediction.work[r])});
  }
  std::printf("%s", align_columns(ranks).c_str());
  for (const MemoryPool& pool : pools)
    std::printf("free: %s for %s\n", format_bytes(static_cast<double>(pool.free_bytes)).c_str(),
                pool.ranks.size() == 1
                    ? cat("rank ", pool.ranks[0]).c_str()
                    : cat("ranks ", pool.ranks.front(), " to ", pool.ranks.back()).c_str());
}

std::vector<MemoryPool> pools_of(const MachineProfile& profile, int64_t memory) {
  if (memory == 0) return profile.memory;
  std::vector<MemoryPool> pools;
  for (int r = 0; r < profile.ranks(); ++r) pools.push_back({{r}, memory});
  return pools;
}

FoundPlan given_plan(const CostModel& model, const std::string& path) {
  FoundPlan found{.plan = parse_plan(read_text_file(path), path)};
  std::vector<std::string> names;
  for (const WorkloadTable& table : model.workload().tables) names.push_back(table.settings.name);
  check_plan(found.plan, model.ranks(), names);
  ShardPlan sorted{.ranks = model.ranks()};
  for (const std::string& name : names) sorted.tables.push_back(found.plan.of(name));
  found.plan = sorted;
  found.prediction = model.predict(found.plan);
  found.plan.predicted_ms = 1e3 * found.prediction.seconds.total();
  return found;
}

std::string plan_text(const FoundPlan& found, const MachineProfile& profile,
                      const Workload& workload) {
  std::string text =
      cat("# emblem plan: ", profile.ranks(), " ranks (", profile.device, ", ", profile.transport,
          "), ", workload.rows_per_rank(), " rows per rank, keys from ", workload.keys_from, "\n");
  text += "# ms:";
  for (const auto& [name, part] : parts_of(found.prediction.seconds))
    text += cat(" ", name, " ", milliseconds(part));
  double most = 0;
  for (const RankBytes& bytes : found.prediction.bytes) most = std::max(most, bytes.total());
  return cat(text, "\n# up to ", format_bytes(most), " per rank\n", to_text(found.plan));
}

// Clusters that were not measured, every line with what it rests on. `dedup`: what ranks of a host
// can do together.
void simulate(const PlanArguments& options, const MachineProfile& profile, const Workload& workload,
              HostDedup dedup) {
  EMBLEM_REQUIRE(options.links.size() == 2,
                 "--hosts needs --link INSIDE,BETWEEN, as in "
                 "--link nvlink4,ndr");
  ClusterShape shape{.devices = options.devices,
                     .inside = parse_link(options.links[0]),
                     .between = parse_link(options.links[1])};
  std::printf("kernels and layers: measured (%s, %s, %s)\n", profile.device.c_str(),
              profile.date.c_str(), profile.hosts[0].c_str());
  std::printf("inside a host: %s, %s\nbetween hosts: %s, %s\n", shape.inside.name.c_str(),
              shape.inside.source.c_str(), shape.between.name.c_str(),
              shape.between.source.c_str());
  std::printf("keys: %s; more ranks: extrapolated\n", workload.keys_from.c_str());
  std::printf("rows over all ranks; no overlap of exchanges and layers; nothing else disturbs\n\n");
  std::vector<std::vector<std::string>> rows = {{"devices", "hosts", "dedup", "rows to a host",
                                                 "ms", "samples/s", "efficiency", "exchanges ms",
                                                 "bytes per rank"}};
  double first_rate = 0;
  const auto add = [&](const char* name, HostDedup together) {
    Workload work = workload;
    work.host_dedup = together;
    const ClusterStep step = predict_cluster(profile, work, shape);
    const StepParts& seconds = step.prediction.seconds;
    const double rate = static_cast<double>(workload.rows_per_rank()) / seconds.total();
    if (first_rate == 0) first_rate = rate;
    const double exchanges = seconds.keys + seconds.rows + seconds.gradients + seconds.dense_sum;
    rows.push_back({std::to_string(shape.ranks()), std::to_string(shape.hosts), name,
                    format_count(step.rows_to_host), milliseconds(seconds.total()),
                    format_count(rate * shape.ranks()), fixed_text(rate / first_rate, 2),
                    milliseconds(exchanges), format_bytes(step.prediction.bytes[0].total())});
  };
  for (const int hosts : options.hosts) {
    shape.hosts = hosts;
    add("rank", HostDedup::kNone);
    if (hosts > 1 && options.devices > 1 && dedup != HostDedup::kNone) add("host", dedup);
  }
  std::printf("%s", align_columns(rows).c_str());
  if (dedup != HostDedup::kNone)
    std::printf("dedup host: each row is sent once per step to each host%s (dedup_per_host)\n",
                dedup == HostDedup::kRowsAndSums ? " and leaves it as one gradient" : "");
  std::printf("predicted, not measured: no such cluster was used\n");
}

void print_backtest() {
  std::vector<std::vector<std::string>> rows = {
      {"MLPerf DLRM-DCNv2", "batch", "published ms", "predicted ms", "error"}};
  for (const BacktestRow& row : backtest_mlperf())
    rows.push_back({row.system, std::to_string(row.batch), fixed_text(row.published_ms, 2),
                    fixed_text(row.predicted_ms, 2),
                    row.is_fitted
                        ? "fitted"
                        : cat(row.error() < 0 ? "" : "+", fixed_text(100 * row.error(), 0), " %")});
  std::printf("%s", align_columns(rows).c_str());
  std::printf(
      "published: HugeCTR, whole runs with evaluations. Links: published (NVLink 5: twice the rate "
      "of 4, assumed).\nAssumed: HugeCTR's messages in 16 bits, one after the other. Fitted to 8 "
      "devices: the time of a row on a device.\n");
}

int run(const PlanArguments& options) {
  if (options.backtest) {
    print_backtest();
    return 0;
  }
  EMBLEM_REQUIRE(!options.probe.empty(),
                 "--probe FILE is missing: measurements of the machine that "
                 "emblem probe made");
  EMBLEM_REQUIRE(!options.config.empty(), "--config FILE is missing: the pipeline to plan for");
  const MachineProfile profile =
      parse_machine_profile(read_text_file(options.probe), options.probe);
  const config::PipelineConfig config = load(options);
  for (const std::string& line : unsupported_sharding(config)) log_warn(line);
  const FeatureLayout layout = layout_of(config);
  const BatchShape shape = batch_shape_of(config, profile.ranks());
  Workload workload =
      sample_workload(config, layout, shape.rows, shape.shards, options.sample, options.alpha);
  const Device device = profile.device == "cuda" ? Device::kCuda : Device::kCpu;
  workload.host_dedup = host_dedup_of(config.train_config(), rank_hosts(profile.hosts), device);
  if (!options.hosts.empty()) {
    const HostDedup dedup = kind_of_host_dedup(config.train_config());
    const bool is_possible = device == Device::kCpu || dedup == HostDedup::kRowsAndSums;
    simulate(options, profile, workload, is_possible ? dedup : HostDedup::kNone);
    return 0;
  }
  const CostModel model(profile, workload);
  const std::vector<MemoryPool> pools = pools_of(profile, options.memory);
  const FoundPlan found =
      options.plan.empty() ? search_plan(model, pools) : given_plan(model, options.plan);
  std::printf("%d ranks (%s, %s, %d threads each), %ld rows per rank, keys from %s\n\n",
              profile.ranks(), profile.device.c_str(), profile.transport.c_str(), profile.threads,
              static_cast<long>(workload.rows_per_rank()), workload.keys_from.c_str());
  if (workload.host_dedup != HostDedup::kNone)
    std::printf("each row is sent once per step to each host (dedup_per_host)\n\n");
  print_tables(model, found);
  print_prediction(model, found, pools);
  if (options.explain)
    for (const std::string& line : explain_plan(model, pools, found))
      std::printf("%s\n", line.c_str());
  if (const auto problem = explain_misfit(model, pools, found))
    throw Error(ErrorCode::kOutOfMemory, *problem);
  if (options.out.empty()) return 0;
  write_text_file_atomically(options.out, plan_text(found, profile, workload));
  std::printf("written to %s; use it with train_config { plan_path: \"%s\" }\n",
              options.out.c_str(), options.out.c_str());
  return 0;
}

}  // namespace

void add_plan(Command& program) {
  auto options = std::make_shared<PlanArguments>();
  Command command = program.add_command(
      "plan",
      "Choose the placement of tables on ranks: the fastest predicted step that fits "
      "into "
      "memory, from the measurements of emblem probe; or predict a given plan, or larger clusters");
  add_config_options(command, *options, ConfigNeed::kOptional);
  command.option("--probe", options->probe, "FILE", "Measurements of emblem probe");
  command.option("--plan", options->plan, "FILE", "Predict this plan instead of searching one");
  command.output("--out", options->out, "File for the plan (train_config.plan_path)");
  command
      .option("--sample", options->sample, "N",
              "Batches of the data to count keys in; 0: keys by a power law")
      .at_least(0);
  command.option("--alpha", options->alpha, "A", "Exponent of the power law, with --sample 0")
      .positive();
  command.size("--memory", options->memory, "Bytes that each rank may use", "what was free");
  command.flag("--explain", options->explain, "Explain the placement of each table");
  const Option hosts =
      command.list("--hosts", options->hosts, "N,...",
                   "Predict clusters of these numbers of hosts instead, with --devices and --link");
  command.option("--devices", options->devices, "N", "Devices of a host, with --hosts")
      .range(1, 1024)
      .needs(hosts);
  command
      .list("--link", options->links, "INSIDE,BETWEEN",
            "Links inside a host and between hosts: nvlink4, ndr, or NAME=GB/s:MICROSECONDS")
      .needs(hosts);
  command.flag("--backtest", options->backtest,
               "Compare predictions for larger clusters with MLPerf's published results instead");
  command.run([options] { return run(*options); });
}

}  // namespace emblem
