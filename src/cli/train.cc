#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/result/run_result.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/interrupt.h"
#include "core/text.h"
#include "train/trainer.h"

namespace emblem {
namespace {

constexpr int kInterruptedStatus = 130;  // what shells expect after Ctrl-C

struct Options : PipelineOptions {
  bool resume = false;
  int64_t max_steps = 0;
  std::string stop_at, profile, json;
  int64_t max_bad_rows = -1;  // as configured
};

const char* to_text(TrainOutcome outcome) {
  switch (outcome) {
    case TrainOutcome::kFinished:
      return "finished";
    case TrainOutcome::kStoppedEarly:
      return "stopped: no more gain";
    case TrainOutcome::kReachedTarget:
      return "stopped: target reached";
    case TrainOutcome::kInterrupted:
      return "interrupted; go on with --resume";
  }
  return "";
}

void print(const TrainSummary& summary) {
  std::printf("%s after %ld steps\n", to_text(summary.outcome), static_cast<long>(summary.steps));
  std::printf(
      "  trained     %s rows in %s (%s rows/s)\n",
      format_count(static_cast<double>(summary.rows)).c_str(),
      format_duration(summary.training_seconds).c_str(),
      format_count(static_cast<double>(summary.rows) / std::max(1e-9, summary.training_seconds))
          .c_str());
  if (summary.bad_rows > 0)
    std::printf("  skipped     %ld bad rows\n", static_cast<long>(summary.bad_rows));
  if (summary.evaluation) std::printf("  evaluation  %s\n", to_text(*summary.evaluation).c_str());
  std::printf("  checkpoint  %s\n", summary.checkpoint.c_str());
}

int run(const Options& options) {
  config::PipelineConfig config = load_unchecked(options);
  if (options.resume) adopt_resumed_semantics(&config);
  check(config);
  if (options.max_bad_rows >= 0)
    config.mutable_data_config()->set_max_bad_rows(options.max_bad_rows);
  TrainOptions train_options;
  train_options.max_steps = options.max_steps;
  if (options.resume) train_options.model_dir = ModelDir::kResume;
  if (!options.stop_at.empty()) train_options.stop_at = parse_stop_at(options.stop_at);
  const auto trace = make_trace(options.profile, options);
  train_options.trace = trace.get();
  const Workers workers = make_workers(options, config.train_config().num_threads());
  const InterruptHandler handler;
  const TrainSummary summary = train(workers.context, config, train_options);
  if (trace) trace->finish();
  print(summary);
  if (!options.json.empty())
    write_bench_results(options.json, {result_of_run(summary, options.config)});
  return summary.outcome == TrainOutcome::kInterrupted ? kInterruptedStatus : 0;
}

}  // namespace

void add_train(CLI::App& program, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("train", "Train a model, with evaluations and checkpoints");
  add_config_options(*command, *options);
  command->add_option("--model-dir", options->model_dir,
                      "Where checkpoints and results go (default: the configuration's)");
  add_device_options(*command, *options);
  command->add_flag("--resume", options->resume,
                    "Go on from the latest checkpoint in the model dir");
  command
      ->add_option("--max-steps", options->max_steps,
                   "Stop after so many steps in all (0: as configured)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_profile_option(*command, options->profile);
  command->add_option("--stop-at", options->stop_at,
                      "Stop when an evaluation reaches METRIC=VALUE, e.g. auc=0.8025");
  command
      ->add_option(
          "--max-bad-rows", options->max_bad_rows,
          "Skip and count up to so many unreadable rows (default: data_config.max_bad_rows)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--json", options->json,
                      "Also write the last evaluation and what the run cost to this file");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace emblem
