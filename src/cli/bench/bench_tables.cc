#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/tables/tables_bench.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/system/process.h"
#include "core/text/text.h"

namespace emblem {
namespace {

struct TablesOptionsOfCli : PipelineOptions, TablesOptions {
  std::string preset, only, json, stream = "replay", placement = "device", dtype = "fp32",
                                  pooling = "none", kind = "dynamic";
  std::string device_bytes = "0";
  TablesCase one;
};

DType dtype_of(const std::string& name) {
  return name == "fp16" ? DType::kF16 : name == "bf16" ? DType::kBf16 : DType::kF32;
}

std::vector<TablesCase> cases_of(TablesOptionsOfCli& options) {
  const KeyStream stream = options.stream == "fresh" ? KeyStream::kFresh : KeyStream::kReplay;
  if (!options.preset.empty()) {
    std::vector<TablesCase> chosen;
    for (const TablesCase& of : tables_preset(
             options.preset, stream, options.device == "cuda" ? Device::kCuda : Device::kCpu)) {
      if (of.name.find(options.only) == std::string::npos) continue;
      chosen.push_back(of);
      chosen.back().prefetch = options.one.prefetch && of.placement != Placement::kDevice;
    }
    EMBLEM_REQUIRE(!chosen.empty(), "bench tables: no configuration of ", options.preset, " has \"",
                   options.only, "\" in its name");
    return chosen;
  }
  TablesCase of = options.one;
  of.stream = stream;
  of.dtype = dtype_of(options.dtype);
  of.kind = options.kind == "static" ? TableKind::kStatic : TableKind::kDynamic;
  of.placement = options.placement == "cache"  ? Placement::kCache
                 : options.placement == "host" ? Placement::kHost
                                               : Placement::kDevice;
  EMBLEM_REQUIRE(of.placement == Placement::kDevice || options.device == "cuda", "--placement ",
                 options.placement, " needs --device cuda");
  EMBLEM_REQUIRE(!of.prefetch || of.placement != Placement::kDevice,
                 "--prefetch fetches rows from host memory; it needs --placement cache or host");
  of.device_bytes = parse_size(options.device_bytes, "--device-bytes");
  of.pooling = options.pooling == "mean" ? Pooling::kMean : Pooling::kSum;
  if (options.pooling == "none") of.hotness = 1;
  of.name = cat("t", of.tables, "-b", of.batch, "-r", of.rows, "-d", of.dim, "-", of.optimizer, "-",
                options.placement, of.stream == KeyStream::kFresh ? "-fresh" : "");
  return {of};
}

std::vector<ReferenceTable> published_figures_of_tables() {
  const std::string folder =
      find_reference_folder(std::filesystem::current_path().string(), program_path());
  std::vector<ReferenceTable> tables;
  for (const char* name : {"tables-dynamicemb-2025.json", "tables-dynamicemb-2026.json"}) {
    if (!folder.empty() && std::filesystem::exists(folder + "/" + name))
      tables.push_back(read_reference(folder + "/" + name));
  }
  return tables;
}

void run(TablesOptionsOfCli& options) {
  const Workers workers = make_workers(options, 0);
  const std::vector<ReferenceTable> published = published_figures_of_tables();
  const std::vector<TablesCase> cases = cases_of(options);
  const auto print = [](const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  };
  const TablesRun done = bench_all_tables(
      workers.context, cases, options,
      [&](const BenchResult& result) { print(tables_report({result}, published)); }, print);
  if (!done.results.empty()) {
    for (const auto& [name, value] : done.results.back().ceilings)
      std::printf("%s: %.4g\n", name.c_str(), value);
    if (!options.json.empty()) {
      write_bench_results(options.json, done.results);
      std::printf("wrote %s\n", options.json.c_str());
    }
  }
  if (done.not_measured.empty()) return;
  throw Error(ErrorCode::kOutOfMemory,
              cat("bench tables: ", done.not_measured.size(), " of ", cases.size(),
                  " configurations do not fit into memory; select others with --only, or "
                  "lower --rows or --dim"));
}

}  // namespace

void add_tables_bench(Command& bench) {
  auto options = std::make_shared<TablesOptionsOfCli>();
  Command command = bench.add_command(
      "tables",
      "Speed of table lookups and updates, compared with memory bandwidth and published figures");
  command.choice("--preset", options->preset, {"dynamicemb-2025", "dynamicemb-2026"},
                 "Published configurations, instead of the options below");
  command.option("--only", options->only, "NAME",
                 "Only configurations of the preset with this text in their names");
  command.choice("--stream", options->stream, {"replay", "fresh"},
                 "replay: batches are repeated; fresh: every batch is new");
  TablesCase& one = options->one;
  command.option("--tables", one.tables, "N", "Number of tables");
  command.option("--rows", one.rows, "N", "Rows per table");
  command.option("--batch", one.batch, "N", "Lookups per table");
  command.option("--dim", one.dim, "N", "Embedding dimension");
  command.option("--alpha", one.alpha, "X", "Exponent of the keys' power law");
  command.option("--optimizer", one.optimizer, "NAME",
                 "sgd, momentum, adagrad, rowwise_adagrad, adam, ftrl");
  command.choice("--kind", options->kind, {"static", "dynamic"}, "Kind of tables");
  command.choice("--placement", options->placement, {"device", "cache", "host"},
                 "Where rows are stored, with --device cuda");
  command.option("--device-bytes", options->device_bytes, "SIZE",
                 "Device memory for rows, with --placement cache");
  command.choice("--dtype", options->dtype, {"fp32", "fp16", "bf16"}, "Type of weights");
  command.choice("--pooling", options->pooling, {"none", "sum", "mean"}, "Pooling of bags");
  command.option("--hotness", one.hotness, "N", "Keys per bag, with pooling");
  command.option("--load-factor", one.load_factor, "SHARE",
                 "Share of the rows filled before timing");
  command.flag("--prefetch", options->one.prefetch,
               "Training steps prefetch the rows of the next step, with --placement cache or host");
  command.option("--batches", options->batches, "N", "Number of distinct batches");
  command.option("--repetitions", options->repetitions, "N", "Timed repetitions");
  command.output("--json", options->json, "Also write the results to this file");
  add_device_options(command, *options);
  command.run([options] { run(*options); });
}

}  // namespace emblem
