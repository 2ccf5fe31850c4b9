#include <CLI/CLI.hpp>
#include <memory>

#include "bench/train_bench.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"

namespace emblem {
namespace {

struct TrainOptionsOfCli : PipelineOptions, TrainBenchOptions {
  std::string preset = "dlrm-kaggle", table_kind = "static", json;
};

void run_train(TrainOptionsOfCli& options) {
  options.tables = options.table_kind == "dynamic" ? BenchTables::kDynamic : BenchTables::kStatic;
  if (options.config.empty()) {
    const Workers workers = make_workers(options, 0);
    options.overrides = overrides_of(options);
    report_bench(bench_kaggle(workers.context, options), options.json);
    return;
  }
  const config::PipelineConfig config = load(options);
  const Workers workers = make_workers(options, config.train_config().num_threads());
  report_bench({bench_pipeline(workers.context, config, options)}, options.json);
}

void add_train_bench(CLI::App& bench) {
  auto options = std::make_shared<TrainOptionsOfCli>();
  CLI::App* command = bench.add_subcommand(
      "train", "Speed of a training step, by stages, beside the machine's limits");
  command->add_option("--preset", options->preset, "Workload with generated batches")
      ->check(CLI::IsMember({"dlrm-kaggle"}))
      ->capture_default_str();
  command->add_option("--config", options->config,
                      "Measure this pipeline, loader included, instead of a preset");
  command->add_option("--set", options->set, "Override a field of the pipeline (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--batch", options->batches, "Batch sizes")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--dim", options->dims, "Embedding dimensions")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--tables", options->table_kind, "Kind of tables")
      ->check(CLI::IsMember({"static", "dynamic"}))
      ->capture_default_str();
  command->add_option("--alpha", options->alpha, "Exponent of the keys' power law")
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Timed seconds, at least")
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Timed steps, at least")->capture_default_str();
  command->add_option("--warmup", options->warmup, "Steps before the clock starts")
      ->capture_default_str();
  command->add_option("--json", options->json, "Also write the results to this file");
  add_device_options(*command, *options);
  command->callback([options] { run_train(*options); });
}

}  // namespace

void add_bench(CLI::App& program, const std::vector<std::string>& arguments, int& status) {
  CLI::App* bench = program.add_subcommand("bench", "Measure speed, and judge results");
  bench->require_subcommand(1);
  add_train_bench(*bench);
  add_loader_bench(*bench);
  add_infer_bench(*bench);
  add_tables_bench(*bench);
  add_serve_bench(*bench);
  add_against(*bench, arguments, status);
  add_suite_bench(*bench, status);
  add_compare_bench(*bench, status);
}

}  // namespace emblem
