#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/result/run_result.h"
#include "checkpoint/remote_model_dir.h"
#include "cli/commands.h"
#include "cli/exit_watch.h"
#include "cli/pipeline_options.h"
#include "cli/rank_options.h"
#include "core/files/output_file.h"
#include "core/system/interrupt.h"
#include "core/text/text.h"
#include "data/source/storage.h"
#include "data/source/uri.h"
#include "emblem/error.h"
#include "launch/interrupt_handler.h"
#include "ranks/ranks.h"
#include "train/report/run_report.h"
#include "train/report/run_setup.h"

namespace emblem {
namespace {

constexpr const char* kInterruptNotice =
    "emblem: interrupted: saving a checkpoint; interrupt again to stop at once";

struct TrainArguments : PipelineOptions {
  bool resume = false, init_partial = false;
  std::string init_from;
  int64_t max_steps = 0;
  std::string stop_at, profile, json;
  double upload_grace_seconds = 10;
  RankOptions ranks;
  TransportOptions transport;
};

const char* to_text(TrainOutcome outcome) {
  switch (outcome) {
    case TrainOutcome::kFinished:
      return "finished";
    case TrainOutcome::kStoppedEarly:
      return "stopped early: no improvement";
    case TrainOutcome::kReachedTarget:
      return "stopped: target reached";
    case TrainOutcome::kInterrupted:
      return "interrupted";
  }
  return "";
}

// Ranks end alike, though the signal may have been sent to another one.
int status_of(const TrainSummary& summary) {
  if (summary.outcome != TrainOutcome::kInterrupted) return 0;
  return interrupted() ? interrupted_status() : kStatusOfInterrupt;
}

// Whether the path begins with that of the folder; neither needs to exist.
bool is_below(const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path relative =
      fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

// How right a plan with a prediction was.
void print_plan(const ShardPlan* plan, const TrainSummary& summary) {
  if (plan == nullptr || plan->predicted_ms <= 0 || summary.step_seconds_p50 <= 0) return;
  const double measured = 1e3 * summary.step_seconds_p50;
  std::printf("  plan        predicted %.3g ms, measured %.3g (%+.0f %%)\n", plan->predicted_ms,
              measured, 100 * (measured / plan->predicted_ms - 1));
}

void print(const TrainSummary& summary, const ShardPlan* plan) {
  const bool resumable = summary.outcome == TrainOutcome::kInterrupted && summary.steps > 0;
  std::printf("%s after %ld steps%s\n", to_text(summary.outcome), static_cast<long>(summary.steps),
              resumable ? "; continue with --resume" : "");
  std::printf(
      "  trained     %s rows in %s (%s rows/s in steps)\n",
      format_count(static_cast<double>(summary.rows)).c_str(),
      format_duration(summary.seconds).c_str(),
      format_count(static_cast<double>(summary.rows) / std::max(1e-9, summary.training_seconds))
          .c_str());
  if (summary.bad_rows > 0)
    std::printf("  skipped     %ld bad rows\n", static_cast<long>(summary.bad_rows));
  if (summary.skipped_steps > 0)
    std::printf("  skipped     %ld steps, whose gradients overflowed in fp16\n",
                static_cast<long>(summary.skipped_steps));
  if (summary.evaluation) std::printf("  evaluation  %s\n", to_text(*summary.evaluation).c_str());
  if (summary.evaluation && summary.evaluation->bad_rows > 0)
    std::printf("              skipped %ld bad rows of the evaluation\n",
                static_cast<long>(summary.evaluation->bad_rows));
  if (!summary.checkpoint.empty()) std::printf("  checkpoint  %s\n", summary.checkpoint.c_str());
  print_plan(plan, summary);
  // While SIGPIPE is ignored: the exit status reports how the run ended, even if the reader is
  // gone.
  if (std::fflush(stdout) != 0 && errno == EPIPE) std::clearerr(stdout);
}

// Where model_dir is in a remote store: training writes into a copy, which is uploaded beside it
// after each checkpoint.
std::unique_ptr<RemoteModelDir> open_remote_model_dir(const TrainArguments& options,
                                                      config::PipelineConfig* config,
                                                      TrainOptions* train_options) {
  if (!is_object_uri(config->model_dir())) return nullptr;
  auto remote = std::make_unique<RemoteModelDir>(
      config->model_dir(),
      options.resume ? RemoteModelDir::Existing::kFetchLatest
                     : RemoteModelDir::Existing::kOnlyNames,
      config->train_config().keep_checkpoint_max(), train_options->storage);
  config->set_model_dir(remote->local());
  train_options->callbacks.checkpoint = [to = remote.get()](const std::string&) { to->publish(); };
  return remote;
}

struct Prepared {
  TrainOptions options;
  config::PipelineConfig config;
  std::unique_ptr<RemoteModelDir> remote;
};

// What a rank does before it meets the others.
Prepared prepare(const TrainArguments& options) {
  Prepared made{.config = load_unchecked(options)};
  TrainOptions& training = made.options;
  training.max_steps = options.max_steps;
  if (options.resume) training.model_dir = ModelDir::kResume;
  training.init_from = options.init_from;
  if (options.init_partial) training.warm_start = WarmStart::kPartial;
  if (!options.stop_at.empty()) training.stop_at = parse_stop_at(options.stop_at);
  config::PipelineConfig& config = made.config;
  EMBLEM_REQUIRE(!is_object_uri(config.model_dir()) || find_rank_place(options.ranks).size == 1,
                 "model_dir is ", shown_uri(config.model_dir()),
                 "; several ranks need a folder of a file system that they share");
  training.storage = open_storage(config.data_config());
  made.remote = open_remote_model_dir(options, &config, &training);
  adopt_trained_semantics(training, &config);
  check(config);
  require_local_inputs(config);
  if (!options.resume)  // a run may continue with the pipeline that it has stored
    refuse_pipeline_file_as_output("--model-dir", config.model_dir() + "/pipeline.config", options);
  refuse_pipeline_as_output("--json", options.json, options, config);
  refuse_pipeline_as_output("--profile", options.profile, options, config);
  if (!options.json.empty() && !is_below(options.json, config.model_dir()))
    check_output(options.json);
  return made;
}

Prepared prepare_as_rank(const TrainArguments& options) {
  silence_other_ranks(options.ranks);
  try {
    return prepare(options);
  } catch (const Error& error) {
    tell_other_ranks(options.ranks, options.transport.ranks, error);
    throw;
  }
}

// Where the rest of an interrupted run is when the store does not answer.
std::string interrupted_notice(const RemoteModelDir* remote) {
  if (remote == nullptr) return "interrupted; continue with --resume";
  return cat("what was not uploaded is in ", remote->local(),
             ", and the next run with this --model-dir on this machine uploads it");
}

bool uses_a_store(const config::PipelineConfig& config, const RemoteModelDir* remote) {
  return remote != nullptr || has_remote_inputs(config.train_input_path()) ||
         has_remote_inputs(config.eval_input_path());
}

int run(const TrainArguments& options) {
  auto [train_options, config, remote] = prepare_as_rank(options);
  ExitWatch exit_watch(uses_a_store(config, remote.get()) ? train_options.storage : nullptr,
                       options.upload_grace_seconds);
  exit_watch.begin("interrupted before the first step");
  train_options.cancel = CancelToken([&] {  // asked at every step
    exit_watch.hold();
    return interrupted();
  });
  const auto watch_exit = [&, to = remote.get()] { exit_watch.begin(interrupted_notice(to)); };
  const auto saved = [&, to = remote.get()](const TrainSummary& made) {
    watch_exit();
    // Beside the end of what reads the data, which may wait for their store.
    if (to != nullptr && made.outcome == TrainOutcome::kInterrupted) to->publish();
  };
  TrainingRanks ranks(options.ranks, options.transport.ranks, config, options.resume,
                      cat("train --max-steps ", options.max_steps, " --stop-at ", options.stop_at));
  const InterruptHandler handler(kInterruptNotice);
  std::unique_ptr<Trace> trace;
  TrainSummary summary;
  try {
    ranks.run([&] {
      trace = make_trace(options.profile, options);
      train_options.trace = trace.get();
      const Workers workers = make_workers(options, config.train_config().num_threads());
      ranks.open_device(workers.context, options.transport.device);
      train_options.world = ranks.world();
      summary = train(workers.context, config, train_options, saved);
    });
  } catch (const Error&) {
    watch_exit();
    if (remote) remote->try_to_finish();
    throw;
  }
  if (!ranks.reports()) return status_of(summary);
  watch_exit();
  if (remote) {
    remote->finish();
    summary.checkpoint = remote->address_of(summary.checkpoint);
  }
  if (trace) trace->finish();
  print(summary, ranks.world().plan);
  if (!options.json.empty())
    write_bench_results(options.json, {result_of_run(summary, options.config)});
  return status_of(summary);
}

}  // namespace

void add_train(Command& program) {
  auto options = std::make_shared<TrainArguments>();
  Command command = program.add_command("train", "Train a model, with evaluations and checkpoints");
  add_config_options(command, *options);
  command.option("--model-dir", options->model_dir, "DIR",
                 "Folder for checkpoints and results (default: model_dir of the configuration)");
  add_device_options(command, *options);
  command.flag("--resume", options->resume,
               "Continue exactly from the latest checkpoint in the model directory; start from the "
               "beginning where there is none");
  const Option init_from =
      command.option("--init-from", options->init_from, "DIR",
                     "Start a new run with the weights of this checkpoint or model directory; "
                     "optimizers and schedules start from the beginning; with --resume: where the "
                     "model directory has no checkpoint yet");
  command
      .flag("--init-partial", options->init_partial,
            "Let tables and parameters without a match in --init-from keep their initial values")
      .needs(init_from);
  command
      .option("--max-steps", options->max_steps, "N",
              "Stop after N steps in total (default: as configured)")
      .at_least(1);
  add_profile_option(command, options->profile);
  command
      .option("--upload-grace", options->upload_grace_seconds, "S",
              "After Ctrl-C or SIGTERM: end when the store of the model directory or of the data "
              "has not answered for this time; what was not uploaded stays on this machine")
      .at_least(0);
  command.option("--stop-at", options->stop_at, "METRIC=VALUE",
                 "Stop when an evaluation reaches METRIC=VALUE, e.g. auc=0.8025");
  command.output("--json", options->json,
                 "Also write the final evaluation, speed and memory use to this file",
                 OutputPlace::kFolderMayBeMade);
  add_rank_options(command, options->ranks);
  add_transport_options(command, options->transport);
  command.run([options] { return run(*options); });
}

}  // namespace emblem
