#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/train/sweep.h"
#include "bench/train/train_bench.h"
#include "bench/train/until.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/files/file.h"
#include "core/text/text.h"

namespace emblem {
namespace {

constexpr int64_t kFirstTry = 1024;  // rows, in the search for the largest batch

struct BenchTrainArguments : PipelineOptions, TrainBenchOptions {
  std::string table_kind = "static", input_kind, data_rows_text = "4M", host_bytes_text = "0", json,
              profile, fragment, until_text;
  std::vector<std::string> device_bytes_texts = {"0"};
  TrainAxes axes;
  bool find_largest = false;
  int64_t largest_up_to = int64_t{1} << 22;
};

void read_words(BenchTrainArguments& options) {
  options.tables = options.table_kind == "dynamic" ? BenchTables::kDynamic : BenchTables::kStatic;
  if (options.input_kind.empty()) options.input_kind = options.config.empty() ? "device" : "files";
  options.input = options.input_kind == "files"    ? BenchInput::kFiles
                  : options.input_kind == "memory" ? BenchInput::kMemory
                                                   : BenchInput::kDevice;
  options.data_rows = parse_size(options.data_rows_text, "--data-rows");
  options.host_bytes = parse_size(options.host_bytes_text, "--host-memory");
  if (!options.until_text.empty()) options.until = parse_stop_at(options.until_text, "--until");
  for (const std::string& text : options.device_bytes_texts) {
    const int64_t bytes = parse_size(text, "--device-bytes");
    EMBLEM_REQUIRE(bytes == 0 || options.device == "cuda", "--device-bytes needs --device cuda");
    options.axes.device_bytes.push_back(bytes);
  }
  if (!options.config.empty()) return;
  if (options.axes.batches.empty()) options.axes.batches = preset_batches(options.preset);
  if (options.preset == "dlrm-kaggle") options.axes.dims = options.dims;
}

// The options of one setting.
BenchTrainArguments with(const BenchTrainArguments& options, const TrainSetting& setting) {
  BenchTrainArguments one = options;
  one.precision = setting.precision;
  one.threads = setting.threads;
  one.device_bytes = setting.device_bytes;
  one.batches = {setting.batch};
  one.dims = {setting.dim};
  if (!options.config.empty() && setting.batch > 0)
    one.set.push_back(cat("data_config.batch_size=", setting.batch));
  if (!options.config.empty() && setting.device_bytes > 0)
    one.set.push_back(cat("train_config.device_bytes=", setting.device_bytes));
  if (!options.config.empty() && options.divide_tables > 1)
    one.table_divisor = options.divide_tables;
  one.overrides = overrides_of(one);
  return one;
}

// Results of a pipeline are named by the settings that vary.
std::string suffix_of(const TrainSetting& setting, const TrainAxes& axes) {
  std::string suffix;
  if (axes.batches.size() > 1) suffix += cat("-b", setting.batch);
  if (axes.precisions.size() > 1) suffix += "-" + setting.precision;
  if (axes.device_bytes.size() > 1)
    suffix += setting.device_bytes > 0 ? cat("-cache-", setting.device_bytes >> 20, "MiB") : "";
  return suffix;
}

BenchResult measure(const BenchTrainArguments& options, const TrainSetting& setting) {
  const BenchTrainArguments one = with(options, setting);
  if (one.config.empty()) {
    const Workers workers = make_workers(one, 0);
    return bench_train(workers.context, one).front();
  }
  const config::PipelineConfig config = load(one);
  const Workers workers = make_workers(one, config.train_config().num_threads());
  BenchResult result = bench_pipeline(workers.context, config, one);
  result.name += suffix_of(setting, options.axes);
  return result;
}

void try_setting(const BenchTrainArguments& options, const TrainSetting& setting) {
  const BenchTrainArguments one = with(options, setting);
  if (one.config.empty()) {
    const Workers workers = make_workers(one, 0);
    return try_train(workers.context, one);
  }
  const config::PipelineConfig config = load(one);
  const Workers workers = make_workers(one, config.train_config().num_threads());
  try_pipeline(workers.context, config, one);
}

struct LargestOf {
  TrainSetting setting;  // ignoring batch and threads
  int64_t batch = 0;

  bool is_for(const TrainSetting& other) const {
    return setting.dim == other.dim && setting.precision == other.precision &&
           setting.device_bytes == other.device_bytes;
  }
};

std::vector<LargestOf> find_largest(const BenchTrainArguments& options) {
  TrainAxes axes = options.axes;
  axes.batches.clear();
  axes.threads.resize(std::min<size_t>(1, axes.threads.size()));
  std::vector<LargestOf> all;
  for (TrainSetting setting : train_settings(axes)) {
    const std::string what = setting.text();
    const LargestBatch found = find_largest_batch(std::min(kFirstTry, options.largest_up_to),
                                                  options.largest_up_to, [&](int64_t batch) {
                                                    setting.batch = batch;
                                                    try_setting(options, setting);
                                                  });
    for (const std::string& line : found.failed) std::printf("  does not fit: %s\n", line.c_str());
    std::printf("largest batch that fits (%s): %s%ld\n\n", what.c_str(),
                found.limited ? "at least " : "", static_cast<long>(found.batch));
    all.push_back({setting, found.batch});
  }
  return all;
}

void print_advice(const TrainSweep& sweep, const std::string& path) {
  for (const std::string& line : sweep.failed) std::printf("\ndoes not fit: %s\n", line.c_str());
  std::string fragment;
  for (const TrainAdvice& advice : sweep.advice) {
    const BenchResult& result = sweep.results[advice.recommended];
    const std::string text =
        train_fragment(result, cat("emblem bench train, ", result.name, ": ", advice.reason));
    std::printf("\nrecommended: %s\n%s", result.name.c_str(), text.c_str());
    fragment += text;
  }
  if (path.empty()) return;
  EMBLEM_REQUIRE(sweep.advice.size() == 1,
                 "--recommend needs several settings of one workload, but ", sweep.advice.size(),
                 " workloads have them; give several of --batch, --precision, "
                 "--threads or --device-bytes, and one --dim");
  write_text_file_atomically(path, fragment);
  std::printf("wrote %s\n", path.c_str());
}

// Results must not replace what is measured.
void refuse_inputs(const BenchTrainArguments& options) {
  if (options.config.empty()) return;
  const config::PipelineConfig config = load_unchecked(options);
  refuse_pipeline_as_output("--json", options.json, options, config);
  refuse_pipeline_as_output("--recommend", options.fragment, options, config);
  refuse_pipeline_as_output("--profile", options.profile, options, config);
}

void check_ranks(const BenchTrainArguments& options) {
  EMBLEM_REQUIRE(options.ranks >= 0, "--ranks ", options.ranks, ": expected at least 1");
  EMBLEM_REQUIRE(options.ranks == 0 || (options.config.empty() && !options.until),
                 "--ranks measures steps of a preset; remove --config and --until, or measure "
                 "emblem launch --ranks N -- train");
}

void run(BenchTrainArguments& options) {
  read_words(options);
  check_ranks(options);
  refuse_inputs(options);
  std::vector<LargestOf> largest;
  if (options.find_largest) largest = find_largest(options);
  const auto trace = make_trace(options.profile, options);
  options.trace = trace.get();
  const TrainSweep sweep =
      sweep_training(train_settings(options.axes), [&](const TrainSetting& setting) {
        BenchResult result = measure(options, setting);
        for (const LargestOf& found : largest)
          if (found.is_for(setting)) result.settings.emplace_back("largest_batch", found.batch);
        return result;
      });
  if (trace) trace->finish();
  if (options.until) {
    std::printf("%s", until_table(sweep.results).c_str());
    write_json(sweep.results, options.json);
  } else {
    report_bench(sweep.results, options.json);
  }
  print_published(sweep.results);
  print_advice(sweep, options.fragment);
}

void add_workload_options(Command& command, BenchTrainArguments& options) {
  command.choice("--preset", options.preset, train_presets(), "Workload with generated batches");
  command.option(
      "--config", options.config, "FILE",
      "Measure this pipeline instead of a preset, including its loader unless --input says "
      "otherwise");
  command.repeatable("--set", options.set, "PATH=VALUE",
                     "Override a field of the pipeline (repeatable)");
  add_input_options(command, static_cast<PipelineOptions&>(options));
  command.list("--dim", options.dims, "N,...", "Embedding dimensions, for dlrm-kaggle");
  command
      .option("--divide-tables", options.divide_tables, "N",
              "Use tables with 1/N of the rows, for machines with less memory")
      .positive();
  command.choice("--tables", options.table_kind, {"static", "dynamic"}, "Kind of tables");
  command.choice("--optimizer", options.optimizer, {"sgd", "adagrad", "rowwise_adagrad", "adam"},
                 "Optimizer of embeddings and dense weights (default: the preset's)");
}

// The settings to vary; all combinations are measured.
void add_axes(Command& command, BenchTrainArguments& options) {
  command
      .list("--batch", options.axes.batches, "N,...",
            "Batch sizes (default: the preset's or the pipeline's)")
      .range(int64_t{1}, int64_t{1} << 31);
  command.choices("--precision", options.axes.precisions, {"fp32", "bf16", "fp16"},
                  "Types to compute layers in (default: train_config.mixed_precision, or fp32)");
  command
      .list("--threads", options.axes.threads, "N,...",
            "Numbers of compute threads (default: train_config.num_threads, or all CPUs)")
      .range(0, 1024);
  command.list(
      "--device-bytes", options.device_bytes_texts, "SIZE,...",
      "GPU memory for a cache of rows in host memory, e.g. 4GiB (0: all rows in GPU memory)");
}

void add_search_options(Command& command, BenchTrainArguments& options) {
  command.flag("--find-largest-batch", options.find_largest,
               "First find the largest batch that fits into memory, by doubling and bisection");
  command.option("--largest-up-to", options.largest_up_to, "N", "Upper limit of that search")
      .positive();
  command.option(
      "--host-memory", options.host_bytes_text, "SIZE",
      "Host memory that training on the CPU may use, e.g. 8GiB (0: 90 % of the available)");
  command.output("--recommend", options.fragment,
                 "Write the recommended setting to this file, as a fragment of a pipeline");
}

void add_batch_options(Command& command, BenchTrainArguments& options) {
  command.choice("--input", options.input_kind, {"device", "memory", "files"},
                 "Where batches are before a step: device, host memory, or files (default: device; "
                 "with --config: files)");
  command.option(
      "--data", options.data, "DIR",
      "Folder with train/ in Raw format, generated if missing; for --input files and --until");
  command.option("--data-rows", options.data_rows_text, "SIZE", "Rows to generate in --data");
  command.option("--alpha", options.alpha, "X", "Exponent of the keys' power law");
  command.option("--distinct", options.distinct_batches, "N",
                 "Distinct batches, used round-robin (0: 32, or 16 large ones)");
}

}  // namespace

void add_train_bench(Command& bench) {
  auto options = std::make_shared<BenchTrainArguments>();
  Command command =
      bench.add_command("train",
                        "Speed of a training step by stage, its share of the machine's limits and "
                        "what bounds it, for all combinations of the settings given, with a "
                        "recommendation");
  add_workload_options(command, *options);
  add_axes(command, *options);
  add_search_options(command, *options);
  add_batch_options(command, *options);
  command.option("--until", options->until_text, "METRIC=VALUE",
                 "Train from Raw files until an evaluation reaches METRIC=VALUE, e.g. "
                 "auc=0.8025, and print the minutes it took");
  command
      .option("--eval-every", options->eval_every, "N",
              "Steps between evaluations of --until (0: 20 times per epoch, or as configured)")
      .at_least(0);
  command.option("--seconds", options->seconds, "SECONDS", "Timed seconds, at least");
  command.option("--steps", options->steps, "N", "Timed steps, at least");
  command.option("--warmup", options->warmup, "N", "Steps before timing starts");
  command.option("--ranks", options->ranks, "N",
                 "Of a preset: ranks that share the device, as threads of this process, each with "
                 "its part of the batch; 1: one rank with sharded tables");
  add_profile_option(command, options->profile);
  command.output("--json", options->json, "Also write the results to this file");
  add_device_option(command, *options);
  command.run([options] { run(*options); });
}

}  // namespace emblem
