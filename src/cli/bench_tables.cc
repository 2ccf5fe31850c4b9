#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/tables/tables_bench.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/process.h"
#include "core/text.h"

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
                 options.placement, " is about a GPU's memory: add --device cuda");
  EMBLEM_REQUIRE(!of.prefetch || of.placement != Placement::kDevice,
                 "--prefetch brings rows from host memory: add --placement cache or host");
  of.device_bytes = parse_size(options.device_bytes, "--device-bytes");
  of.pooling = options.pooling == "mean" ? Pooling::kMean : Pooling::kSum;
  if (options.pooling == "none") of.hotness = 1;
  of.name = cat("t", of.tables, "-b", of.batch, "-r", of.rows, "-d", of.dim, "-", of.optimizer, "-",
                options.placement, of.stream == KeyStream::kFresh ? "-fresh" : "");
  return {of};
}

std::vector<ReferenceTable> published_figures() {
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
  const std::vector<ReferenceTable> published = published_figures();
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
                  " configurations need more memory than there is: choose others with --only, or "
                  "lower --rows or --dim"));
}

}  // namespace

void add_tables_bench(CLI::App& bench) {
  auto options = std::make_shared<TablesOptionsOfCli>();
  CLI::App* command = bench.add_subcommand(
      "tables", "Speed of table lookups and updates, beside memory's limit and published figures");
  command
      ->add_option("--preset", options->preset,
                   "Published configurations, instead of the options below")
      ->check(CLI::IsMember({"dynamicemb-2025", "dynamicemb-2026"}));
  command->add_option("--only", options->only,
                      "Of the preset: those with this text in their names");
  command->add_option("--stream", options->stream, "Batches are replayed, or every one is new")
      ->check(CLI::IsMember({"replay", "fresh"}))
      ->capture_default_str();
  TablesCase& one = options->one;
  command->add_option("--tables", one.tables, "Tables")->capture_default_str();
  command->add_option("--rows", one.rows, "Rows a table")->capture_default_str();
  command->add_option("--batch", one.batch, "Lookups a table")->capture_default_str();
  command->add_option("--dim", one.dim, "Embedding dimension")->capture_default_str();
  command->add_option("--alpha", one.alpha, "Exponent of the keys' power law")
      ->capture_default_str();
  command
      ->add_option("--optimizer", one.optimizer,
                   "sgd, momentum, adagrad, rowwise_adagrad, adam, ftrl")
      ->capture_default_str();
  command->add_option("--kind", options->kind, "Kind of tables")
      ->check(CLI::IsMember({"static", "dynamic"}))
      ->capture_default_str();
  command->add_option("--placement", options->placement, "Where rows are, with --device cuda")
      ->check(CLI::IsMember({"device", "cache", "host"}))
      ->capture_default_str();
  command
      ->add_option("--device-bytes", options->device_bytes,
                   "Device memory for rows, with --placement cache")
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "Type of weights")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
  command->add_option("--pooling", options->pooling, "Pooling of bags")
      ->check(CLI::IsMember({"none", "sum", "mean"}))
      ->capture_default_str();
  command->add_option("--hotness", one.hotness, "Keys a bag, with pooling")->capture_default_str();
  command->add_option("--load-factor", one.load_factor, "Share of the rows filled beforehand")
      ->capture_default_str();
  command->add_flag("--prefetch", options->one.prefetch,
                    "Training steps name the keys of the next, with --placement cache or host");
  command->add_option("--batches", options->batches, "Different batches")->capture_default_str();
  command->add_option("--repetitions", options->repetitions, "Timed passes over them")
      ->capture_default_str();
  command->add_option("--json", options->json, "Also write the results to this file");
  add_device_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
