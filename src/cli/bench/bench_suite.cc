#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "bench/judge/baseline_update.h"
#include "bench/judge/suite.h"
#include "bench/result/history.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/files/file.h"
#include "core/system/process.h"

namespace emblem {
namespace {

struct BenchSuiteArguments : PipelineOptions {
  SuiteOptions suite;
  std::string baseline, history;
  bool update_baseline = false, keep_models = false;
};

std::string baseline_text(const BenchSuiteArguments& options) {
  const bool absent = !std::filesystem::exists(options.baseline);
  return absent && options.update_baseline ? "{}" : read_text_file(options.baseline);
}

// --device, --precision and --threads for each run.
std::vector<std::string> train_arguments(const BenchSuiteArguments& options) {
  std::vector<std::string> arguments = {"--device", options.device};
  if (!options.precision.empty())
    arguments.insert(arguments.end(), {"--precision", options.precision});
  if (options.threads > 0) arguments.insert(arguments.end(), {"--threads", cat(options.threads)});
  return arguments;
}

std::string default_folder() {
  std::string time = utc_now();
  std::erase_if(time, [](char c) { return c == ':' || c == '-'; });
  return "build/suite-" + time;
}

Colour colour_of_stdout() {
  return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr ? Colour::kAnsi
                                                                          : Colour::kNone;
}

void update_baseline(const BenchSuiteArguments& options,
                     const std::vector<ConfigOutcome>& outcomes) {
  const BaselineUpdate update = update_baselines(baseline_text(options), outcomes, this_machine());
  write_text_file_atomically(options.baseline, update.json);
  std::printf("\n%swrote %s\n", to_text(update.changes).c_str(), options.baseline.c_str());
}

int status_of(const BenchSuiteArguments& options, const std::vector<ConfigOutcome>& outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(), [&](const ConfigOutcome& outcome) {
    return options.update_baseline ? outcome.verdict == Verdict::kUnreliable
                                   : fails_the_suite(outcome.verdict);
  });
}

int run(BenchSuiteArguments& options) {
  SuiteOptions& suite = options.suite;
  EMBLEM_REQUIRE(!options.update_baseline || !options.baseline.empty(),
                 "--update-baseline needs --baseline FILE, the file to write");
  if (!options.baseline.empty())
    suite.baselines = parse_baselines(baseline_text(options), options.baseline);
  suite.configs = find_configs(options.config);
  suite.overrides = pipeline_overrides(options);
  suite.arguments = train_arguments(options);
  suite.program = program_path();
  if (suite.out.empty()) suite.out = default_folder();
  if (options.keep_models) suite.models = SuiteOptions::Models::kKeep;

  const std::vector<ConfigOutcome> outcomes = run_suite(
      suite, [](const std::string& line) { std::fprintf(stderr, "emblem: %s\n", line.c_str()); });
  finish_suite(suite.out, outcomes);
  std::printf("%s\n%s; results in %s\n", suite_text(outcomes, colour_of_stdout()).c_str(),
              suite_summary(outcomes).c_str(), suite.out.c_str());
  if (!options.history.empty()) {
    append_history(options.history, source_revision(suite.program, suite.out),
                   suite_results(outcomes));
  }
  if (options.update_baseline) update_baseline(options, outcomes);
  return status_of(options, outcomes);
}

}  // namespace

void add_suite_bench(Command& bench) {
  auto options = std::make_shared<BenchSuiteArguments>();
  SuiteOptions& suite = options->suite;
  Command command = bench.add_command(
      "suite",
      "Train pipelines several times and compare them with baselines; exit status 1 if one "
      "is worse or unreliable");
  command.option("--config", options->config, "FILE", "Pipeline, or a folder of *.config")
      .required();
  command.repeatable("--set", options->set, "PATH=VALUE",
                     "Override a field of every pipeline (repeatable)");
  add_input_options(command, *options);
  add_divide_option(command, *options);
  command.option("--baseline", options->baseline, "FILE",
                 "Expected results by config path (TorchEasyRec's base_eval_metric.json and "
                 "additions, see docs/benchmarking.md)");
  command.option("--runs", suite.runs, "N", "Runs of each pipeline (0: its baseline's, or 3)")
      .range(0, 10000);
  command.option("--seed", suite.first_seed, "N",
                 "Seed of the first run; the following runs use the next numbers");
  command
      .option("--timeout", suite.timeout_seconds, "SECONDS",
              "Seconds after which a run is killed and counts as failed")
      .positive();
  command.option("--out", suite.out, "DIR",
                 "Folder for results and logs; an interrupted suite is continued (default: "
                 "build/suite-TIME)");
  command.flag("--update-baseline", options->update_baseline,
               "Write the results to the baseline file and show the difference");
  command.option("--history", options->history, "FILE",
                 "Append results, revision and environment to this file, one line per suite");
  command.flag("--keep-models", options->keep_models, "Keep the trained models");
  add_device_options(command, *options);
  command.run_interruptible([options] { return run(*options); });
}

}  // namespace emblem
