#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/train_bench.h"
#include "bench/train_until.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/text.h"

namespace emblem {
namespace {

struct Options : PipelineOptions, TrainBenchOptions {
  std::string table_kind = "static", input_kind = "device", device_bytes_text = "0",
              data_rows_text = "4M", json, profile, until_text;
};

void run(Options& options) {
  options.tables = options.table_kind == "dynamic" ? BenchTables::kDynamic : BenchTables::kStatic;
  options.input = options.input_kind == "files"    ? BenchInput::kFiles
                  : options.input_kind == "memory" ? BenchInput::kMemory
                                                   : BenchInput::kDevice;
  options.device_bytes = parse_size(options.device_bytes_text, "--device-bytes");
  options.data_rows = parse_size(options.data_rows_text, "--data-rows");
  EMBLEM_REQUIRE(options.device_bytes == 0 || options.device == "cuda",
                 "--device-bytes is about a GPU's memory: add --device cuda");
  if (!options.until_text.empty()) options.until = parse_stop_at(options.until_text);
  const auto trace = make_trace(options.profile, options);
  options.trace = trace.get();
  std::vector<BenchResult> results;
  if (options.config.empty()) {
    const Workers workers = make_workers(options, 0);
    options.overrides = overrides_of(options);
    results = bench_train(workers.context, options);
  } else {
    if (options.device_bytes > 0)
      options.set.push_back(cat("train_config.device_bytes=", options.device_bytes));
    const config::PipelineConfig config = load(options);
    const Workers workers = make_workers(options, config.train_config().num_threads());
    results = {bench_pipeline(workers.context, config, options)};
  }
  if (trace) trace->finish();
  if (options.until) {
    std::printf("%s", until_table(results).c_str());
    write_json(results, options.json);
  } else {
    report_bench(results, options.json);
  }
  print_published(results);
}

void add_workload_options(CLI::App& command, Options& options) {
  command.add_option("--preset", options.preset, "Workload with generated batches")
      ->check(CLI::IsMember(train_presets()))
      ->capture_default_str();
  command.add_option("--config", options.config,
                     "Measure this pipeline, loader included, instead of a preset");
  command.add_option("--set", options.set, "Override a field of the pipeline (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--batch", options.batches, "Batch sizes (default: the preset's)")
      ->delimiter(',');
  command.add_option("--dim", options.dims, "Embedding dimensions of dlrm-kaggle")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--divide-tables", options.divide_tables,
                  "Use tables with this fraction of the rows: for machines with less memory")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--tables", options.table_kind, "Kind of tables")
      ->check(CLI::IsMember({"static", "dynamic"}))
      ->capture_default_str();
  command
      .add_option("--optimizer", options.optimizer,
                  "Of embeddings and dense weights (default: the preset's)")
      ->check(CLI::IsMember({"sgd", "adagrad", "rowwise_adagrad", "adam"}));
  command
      .add_option("--device-bytes", options.device_bytes_text,
                  "GPU memory for rows, e.g. 4GiB: cached there, kept in host memory (0: all)")
      ->capture_default_str();
}

void add_input_options(CLI::App& command, Options& options) {
  command
      .add_option("--input", options.input_kind,
                  "Where batches are before a step: device, host memory, or Raw files")
      ->check(CLI::IsMember({"device", "memory", "files"}))
      ->capture_default_str();
  command.add_option("--data", options.data,
                     "Folder with train/ in Raw format, made if there is none; with --input files");
  command.add_option("--data-rows", options.data_rows_text, "Rows to make there")
      ->capture_default_str();
  command.add_option("--alpha", options.alpha, "Exponent of the keys' power law")
      ->capture_default_str();
  command
      .add_option("--distinct", options.distinct_batches,
                  "Different batches, used in turn (0: 32, or 16 large ones)")
      ->capture_default_str();
}

}  // namespace

void add_train_bench(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "train", "Speed of a training step, by stages, beside the machine's limits");
  add_workload_options(*command, *options);
  add_input_options(*command, *options);
  command->add_option("--until", options->until_text,
                      "Train from Raw files until an evaluation reaches METRIC=VALUE, e.g. "
                      "auc=0.8025, and print the minutes that took");
  command
      ->add_option("--eval-every", options->eval_every,
                   "Steps between evaluations of --until (0: 20 times an epoch, or the config's)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Timed seconds, at least")
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Timed steps, at least")->capture_default_str();
  command->add_option("--warmup", options->warmup, "Steps before the clock starts")
      ->capture_default_str();
  add_profile_option(*command, options->profile);
  command->add_option("--json", options->json, "Also write the results to this file");
  add_device_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
