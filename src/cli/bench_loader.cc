#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/loader/loader_bench.h"
#include "bench/result/result_table.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/file.h"

namespace emblem {
namespace {

struct LoaderOptionsOfCli : PipelineOptions, LoaderBenchOptions {
  std::vector<std::string> shuffle_words, cache_words = {"warm"};
  double step_ms = 0;
  std::string fragment, json;
};

// One line that is written over and over, where somebody watches.
void show_progress(const std::string& text) {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

void run(LoaderOptionsOfCli& options) {
  for (const std::string& word : options.shuffle_words)
    options.axes.shuffle.push_back(word == "on");
  options.axes.caches.clear();
  for (const std::string& word : options.cache_words)
    options.axes.caches.push_back(word == "cold" ? CacheState::kCold : CacheState::kWarm);
  options.limits.step_seconds = options.step_ms / 1e3;

  const config::PipelineConfig config = load(options);
  const Workers workers = make_workers(options, config.train_config().num_threads());
  const LoaderBench bench = bench_loader(workers.context, config, options, show_progress);
  show_progress("");
  std::printf("%s", results_table(bench.results, "").c_str());
  if (!options.json.empty()) {
    write_bench_results(options.json, bench.results);
    std::printf("wrote %s\n", options.json.c_str());
  }
  std::printf("\nrecommended: %s\n%s", bench.settings[bench.advice.recommended].name().c_str(),
              bench.fragment.c_str());
  if (options.fragment.empty()) return;
  write_text_file_atomically(options.fragment, bench.fragment);
  std::printf("wrote %s\n", options.fragment.c_str());
}

}  // namespace

void add_loader_bench(CLI::App& bench) {
  auto options = std::make_shared<LoaderOptionsOfCli>();
  LoaderAxes& axes = options->axes;
  CLI::App* command = bench.add_subcommand(
      "loader",
      "Speed of reading and decoding training data, over all combinations of the settings given; "
      "recommends the smallest within 3 % of the best");
  add_config_options(*command, *options);
  command
      ->add_option("--input", axes.inputs,
                   "PATH or LABEL=PATH of an input in any format (repeatable; default: the "
                   "pipeline's)")
      ->allow_extra_args(false);
  command->add_option("--workers", axes.workers, "Parsing threads (default: 1, 2, 4, ... CPUs)")
      ->delimiter(',');
  command->add_option("--batch", axes.batches, "Batch sizes (default: the pipeline's)")
      ->delimiter(',');
  command->add_option("--prefetch", axes.prefetch, "Batches parsed ahead (default: the pipeline's)")
      ->delimiter(',');
  command
      ->add_option("--shuffle", options->shuffle_words, "off, on or both (default: the pipeline's)")
      ->delimiter(',')
      ->check(CLI::IsMember({"off", "on"}));
  command
      ->add_option("--sample-ratio", axes.sample_ratios,
                   "Shares of the rows that are kept (default: the pipeline's)")
      ->delimiter(',')
      ->check(CLI::Range(1e-9, 1.0));
  command
      ->add_option("--page-cache", options->cache_words,
                   "warm: files are in memory; cold: they are not, and are read once")
      ->delimiter(',')
      ->check(CLI::IsMember({"warm", "cold"}))
      ->capture_default_str();
  command
      ->add_option("--step-ms", options->step_ms, "What a batch's consumer takes, as if training")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Times each setting is measured, in turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seconds", options->limits.seconds, "Timed seconds of each measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--train-seconds", options->training_seconds,
                   "Also train so long with the recommended setting: what loading costs, and on a "
                   "GPU the rate of copies")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--recommend", options->fragment,
                      "Write the recommended setting to this file, as part of a pipeline");
  command->add_option("--json", options->json, "Also write the results to this file");
  add_device_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
