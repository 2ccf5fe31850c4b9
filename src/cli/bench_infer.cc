#include <CLI/CLI.hpp>
#include <memory>

#include "bench/infer_bench.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"

namespace emblem {
namespace {

struct Options : PipelineOptions, InferBenchOptions {
  std::string preset = "dlrm-kaggle", table_kind = "static", json;
  int64_t dim = 16, divide_tables = 1;
};

void run(Options& options) {
  options.tables = options.table_kind == "dynamic" ? BenchTables::kDynamic : BenchTables::kStatic;
  const DlrmShape shape = options.preset == "hps-dlrm" ? hps_dlrm() : kaggle_dlrm(options.dim);
  const Workers workers = make_workers(options, 0);
  report_bench(bench_inference(workers.context, shape.scaled_down(options.divide_tables), options),
               options.json);
}

}  // namespace

void add_infer_bench(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "infer", "Latency of a trained model by batch size, lookup included, without a server");
  command->add_option("--preset", options->preset, "Model and tables")
      ->check(CLI::IsMember({"dlrm-kaggle", "hps-dlrm"}))
      ->capture_default_str();
  command->add_option("--batch", options->batches, "Batch sizes (default: those of the preset)")
      ->delimiter(',');
  command->add_option("--dim", options->dim, "Embedding dimension of dlrm-kaggle")
      ->capture_default_str();
  command->add_option("--tables", options->table_kind, "Kind of tables")
      ->check(CLI::IsMember({"static", "dynamic"}))
      ->capture_default_str();
  command
      ->add_option("--divide-tables", options->divide_tables,
                   "Use tables with this fraction of the rows: for machines with less memory")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--alpha", options->alpha, "Exponent of the keys' power law")
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Timed seconds, at least")
      ->capture_default_str();
  command->add_option("--json", options->json, "Also write the results to this file");
  add_device_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
