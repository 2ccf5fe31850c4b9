#include <unistd.h>

#include <cstdio>
#include <memory>

#include "bench/loader/loader_bench.h"
#include "bench/result/result_table.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/files/file.h"
#include "core/files/output_file.h"
#include "core/text/text.h"

namespace emblem {
namespace {

struct LoaderOptionsOfCli : PipelineOptions, LoaderBenchOptions {
  std::vector<std::string> shuffle_words, cache_words = {"warm"}, part_words;
  double step_ms = 0;
  std::string fragment, json;
};

// Results must not replace what is measured.
void refuse_inputs(const LoaderOptionsOfCli& options, const config::PipelineConfig& config) {
  for (const auto& [option, output] :
       {std::pair("--json", &options.json), std::pair("--recommend", &options.fragment)}) {
    refuse_pipeline_as_output(option, *output, options, config);
    for (const LoaderSetting& setting : loader_settings(config, options.axes))
      refuse_input_as_output(option, *output, setting.loading.input);
  }
}

void run(LoaderOptionsOfCli& options) {
  for (const std::string& word : options.shuffle_words)
    options.axes.shuffle.push_back(word == "on");
  options.axes.caches.clear();
  for (const std::string& word : options.cache_words)
    options.axes.caches.push_back(word == "cold" ? CacheState::kCold : CacheState::kWarm);
  for (const std::string& word : options.part_words)
    options.axes.part_bytes.push_back(parse_size(word, "--part-size"));
  options.limits.step_seconds = options.step_ms / 1e3;

  const config::PipelineConfig config = load(options);
  refuse_inputs(options, config);
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

void add_loader_bench(Command& bench) {
  auto options = std::make_shared<LoaderOptionsOfCli>();
  LoaderAxes& axes = options->axes;
  Command command = bench.add_command(
      "loader",
      "Speed of reading and decoding training data, over all combinations of the settings given; "
      "recommends the smallest within 3 % of the best");
  add_config_options(command, *options);
  command.repeatable("--input", axes.inputs, "PATH",
                     "PATH or LABEL=PATH of an input in any format (repeatable; default: the "
                     "pipeline's)");
  command.list("--workers", axes.workers, "N,...", "Parsing threads (default: 1, 2, 4, ... CPUs)");
  command.list("--batch", axes.batches, "N,...", "Batch sizes (default: the pipeline's)");
  command.list("--prefetch", axes.prefetch, "N,...",
               "Batches parsed ahead (default: the pipeline's)");
  command.choices("--shuffle", options->shuffle_words, {"off", "on"},
                  "off, on or both (default: the pipeline's)");
  command
      .list("--sample-ratio", axes.sample_ratios, "X,...",
            "Shares of the rows to keep (default: the pipeline's)")
      .range(1e-9, 1.0);
  command.choices("--page-cache", options->cache_words, {"warm", "cold"},
                  "warm: files are in the page cache; cold: they are not, and are read once; of "
                  "remote inputs: whether they are in the cache folder");
  command.list("--connections", axes.connections, "N,...",
               "Remote inputs: connections at a time (default: data_config.download_threads)");
  command.list("--part-size", options->part_words, "BYTES,...",
               "Remote inputs: bytes of a request, as 8MiB (default: data_config.part_bytes)");
  command
      .option("--step-ms", options->step_ms, "MS",
              "Milliseconds that the consumer spends on each batch, to simulate training")
      .at_least(0);
  command.option("--rounds", options->rounds, "N", "Measurements per setting, alternating")
      .positive();
  command.option("--seconds", options->limits.seconds, "SECONDS", "Seconds per measurement")
      .positive();
  command
      .option(
          "--train-seconds", options->training_seconds, "SECONDS",
          "Also train for this time with the recommended setting to measure the cost of loading "
          "and, on a GPU, the rate of copies")
      .at_least(0);
  command.output("--recommend", options->fragment,
                 "Write the recommended setting to this file, as a fragment of a pipeline");
  command.output("--json", options->json, "Also write the results to this file");
  add_device_options(command, *options);
  command.run([options] { run(*options); });
}

}  // namespace emblem
