#include <CLI/CLI.hpp>
#include <memory>

#include "bench/loader_bench.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"

namespace emblem {
namespace {

struct LoaderOptionsOfCli : PipelineOptions, LoaderBenchOptions {
  std::string json;
};

void run_loader(const LoaderOptionsOfCli& options) {
  const config::PipelineConfig config = load(options);
  const Workers workers = make_workers(options, config.train_config().num_threads());
  report_bench(bench_loader(workers.context, config, options), options.json);
}

void add_loader_bench(CLI::App& bench) {
  auto options = std::make_shared<LoaderOptionsOfCli>();
  CLI::App* command =
      bench.add_subcommand("loader", "Speed of reading and decoding a pipeline's training data");
  add_config_options(*command, *options);
  command->add_option("--workers", options->workers, "Parsing threads")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--batch", options->batches, "Batch sizes (default: the pipeline's)")
      ->delimiter(',');
  command->add_option("--seconds", options->seconds, "Timed seconds for each combination")
      ->capture_default_str();
  command->add_option("--json", options->json, "Also write the results to this file");
  add_device_options(*command, *options);
  command->callback([options] { run_loader(*options); });
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
