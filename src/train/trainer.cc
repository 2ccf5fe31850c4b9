#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/results.h"
#include "config/features.h"
#include "config/print.h"
#include "core/file.h"
#include "core/gpu.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/trace.h"
#include "data/loader/loader.h"
#include "train/batch_stream.h"
#include "train/delta_export.h"
#include "train/event_file.h"
#include "train/learner.h"
#include "train/metrics/metrics.h"
#include "train/run_state.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Reorders `seconds`.
double percentile(std::vector<float>& seconds, double share) {
  if (seconds.empty()) return 0;
  const auto last = static_cast<double>(seconds.size() - 1);
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(share * last + 0.5);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

// Before tables take memory and steps take hours: the layout, if there is something to read.
FeatureLayout layout_for_inputs(const config::PipelineConfig& config) {
  for (const std::string& input : {config.train_input_path(), config.eval_input_path()})
    if (!input.empty()) expand_paths(input);
  return layout_of(config);
}

// Whether it is the data, not the machine, that is at fault.
bool is_of_data(const Error& error) {
  return error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kNotFound ||
         error.code() == ErrorCode::kCorruption;
}

class Trainer {
 public:
  Trainer(const Context& context, const config::PipelineConfig& config, const TrainOptions& options)
      : config_(config),
        train_(config.train_config()),
        options_(options),
        layout_(layout_for_inputs(config)),
        learner_(context, config, layout_, max_rows(config)),
        early_stopping_(train_.early_stopping()),
        memory_(batch_memory(context)) {
    prepare_model_dir();
    learner_.model().stage_clock().trace_to(options.trace);
  }

  TrainSummary run();

 private:
  static int64_t max_rows(const config::PipelineConfig& config) {
    return std::max(training_loader_options(config).batch_size,
                    evaluation_loader_options(config).batch_size);
  }
  // The evaluations and checkpoints that are due at this point.
  struct Due {
    bool evaluation = false, checkpoint = false;
  };

  TrainSummary train();
  void prepare_model_dir();
  LoaderOptions loader_options() const;
  void train_one(BatchStream& batches);
  void log_step(const StepResult& result);
  Due due(const Batch& batch) const;
  void after_step(const Batch& batch);
  void evaluate_now();
  void observe_evaluation();
  void save_now();
  void save_in_spite();
  void write_delta();
  void finish(TrainSummary& summary);
  double set_aside(Clock::time_point start, const char* name);
  void trace(const char* name, int64_t begin_ns);

  const config::PipelineConfig& config_;
  const config::TrainConfig& train_;
  TrainOptions options_;
  FeatureLayout layout_;
  Learner learner_;
  EarlyStopping early_stopping_;
  RunState state_;
  std::optional<Results> results_, log_;
  std::optional<EventFile> events_;
  std::optional<Progress> progress_;
  std::optional<DeltaExport> deltas_;
  std::shared_ptr<std::pmr::memory_resource> memory_;  // of batches

  std::optional<TrainOutcome> outcome_;  // why to stop, once there is a reason
  std::optional<Evaluation> evaluation_;
  int64_t evaluated_step_ = -1, saved_step_ = -1;
  std::string checkpoint_;
  int64_t rows_ = 0, bad_rows_ = 0;
  Clock::time_point last_log_ = Clock::now();
  int64_t last_log_rows_ = 0;
  double other_seconds_ = 0.0;  // evaluations and checkpoints
  double evaluation_seconds_ = 0.0;
  std::vector<float> step_seconds_;
  int64_t evaluations_ = 0;
};

void Trainer::trace(const char* name, int64_t begin_ns) {
  if (options_.trace != nullptr) options_.trace->add(name, begin_ns, trace_now());
}

// Counts the time since `start` as not training but `name`. Returns it, in seconds.
double Trainer::set_aside(Clock::time_point start, const char* name) {
  trace(name,
        std::chrono::duration_cast<std::chrono::nanoseconds>(start.time_since_epoch()).count());
  const auto taken = Clock::now() - start;
  const double seconds = std::chrono::duration<double>(taken).count();
  other_seconds_ += seconds;
  last_log_ += taken;
  return seconds;
}

void Trainer::prepare_model_dir() {
  const std::string& dir = config_.model_dir();
  EMBLEM_REQUIRE(!dir.empty(),
                 "no model_dir; set model_dir in the configuration or give --model-dir");
  const auto existing = latest_checkpoint(dir);
  if (existing && options_.model_dir == ModelDir::kMustBeNew) {
    throw Error(
        ErrorCode::kInvalidArgument,
        cat(*existing, " exists already; go on with it by --resume, or give another --model-dir"));
  }
  std::filesystem::create_directories(dir);
  write_text_file_atomically(dir + "/pipeline.config", to_text(config_));
  if (existing) {
    state_ = load_run(*existing, learner_, Restore::kContinue);
    early_stopping_.restore(state_.early_stopping);
    saved_step_ = learner_.steps();
    checkpoint_ = *existing;
    log_info(cat("resuming from ", *existing));
  } else if (options_.model_dir == ModelDir::kResume) {
    log_info(cat(dir, " holds no checkpoint yet; starting from the beginning"));
  }
  if (train_.delta_steps() > 0)
    deltas_.emplace(dir + "/deltas", learner_.model().tables(), state_.deltas);
  results_.emplace(dir + "/train_eval_result.jsonl", learner_.steps());
  log_.emplace(dir + "/train_log.jsonl", learner_.steps());
  if (train_.use_tensorboard()) {
    events_.emplace(dir);
    if (existing) events_->restart_at(learner_.steps() + 1);
  }
}

LoaderOptions Trainer::loader_options() const {
  LoaderOptions options = training_loader_options(config_);
  options.start = state_.position;
  options.memory = memory_.get();
  const int64_t most = options_.max_steps > 0 ? options_.max_steps : train_.num_steps();
  if (most > 0) options.max_batches = std::max<int64_t>(most - learner_.steps(), 0);
  return options;
}

void Trainer::log_step(const StepResult& result) {
  const double rate =
      static_cast<double>(rows_ - last_log_rows_) / std::max(1e-9, seconds_since(last_log_));
  const int64_t epoch = state_.position.epoch;
  const std::map<std::string, double> values = {{"loss", result.loss},
                                                {"samples_per_second", rate},
                                                {"lr_sparse", learner_.sparse_rate(epoch)},
                                                {"lr_dense", learner_.dense_rate(epoch)}};
  log_->append(learner_.steps(), epoch, values);
  if (events_) {
    events_->add_scalar("loss/total", learner_.steps(), result.loss);
    events_->add_scalar("lr/sparse", learner_.steps(), values.at("lr_sparse"));
    events_->add_scalar("lr/dense", learner_.steps(), values.at("lr_dense"));
    events_->add_scalar("throughput/samples_per_second", learner_.steps(), rate);
    if (result.gradient_norm > 0)
      events_->add_scalar("global_gradient_norm", learner_.steps(), result.gradient_norm);
  }
  last_log_ = Clock::now();
  last_log_rows_ = rows_;
}

void Trainer::train_one(BatchStream& batches) {
  const Batch& batch = batches.host();
  const auto coming = [&] {
    const int64_t begin_ns = trace_now();
    const ModelBatch* next = batches.look_ahead();
    trace("load", begin_ns);
    return next;
  };
  const StepResult result = learner_.step(batches.batch(), state_.position.epoch, coming);
  rows_ += batch.rows;
  if (learner_.steps() % std::max(1u, train_.log_step_count_steps()) == 0) log_step(result);
  progress_->update(rows_, cat("loss ", format_metric(result.loss), "  step ", learner_.steps(),
                               "  epoch ", state_.position.epoch + 1));
  state_.position = batch.next;
}

Trainer::Due Trainer::due(const Batch& batch) const {
  const auto every = [](int64_t count, int64_t interval) {
    return interval > 0 && count % interval == 0;
  };
  const int64_t epochs = batch.last_in_epoch ? batch.next.epoch : 0;
  Due due;
  due.checkpoint = every(learner_.steps(), train_.save_checkpoints_steps()) ||
                   (batch.last_in_epoch && every(epochs, train_.save_checkpoints_epochs()));
  const bool own_interval = train_.eval_steps() > 0 || train_.eval_epochs() > 0;
  due.evaluation = own_interval ? every(learner_.steps(), train_.eval_steps()) ||
                                      (batch.last_in_epoch && every(epochs, train_.eval_epochs()))
                                : due.checkpoint;
  due.evaluation = due.evaluation && !config_.eval_input_path().empty();
  return due;
}

void Trainer::evaluate_now() {
  const auto start = Clock::now();
  progress_->interrupt();
  LoaderOptions loading = evaluation_loader_options(config_);
  loading.memory = memory_.get();
  evaluation_ = evaluate(learner_.context(), learner_.model(), config_, layout_, loading);
  evaluated_step_ = learner_.steps();
  state_.metrics = evaluation_->metrics;
  results_->append(learner_.steps(), state_.position.epoch, evaluation_->metrics);
  if (events_) {
    for (const auto& [name, value] : evaluation_->metrics)
      events_->add_scalar("metric/" + name, learner_.steps(), value);
  }
  log_info(cat("step ", learner_.steps(), ": ", to_text(*evaluation_)));
  evaluation_seconds_ += set_aside(start, "evaluation");
  ++evaluations_;
}

// Lets schedules, early stopping and --stop-at see a scheduled evaluation.
void Trainer::observe_evaluation() {
  for (const auto& [name, value] : evaluation_->metrics) learner_.observe(name, value);
  if (options_.stop_at && options_.stop_at->reached(evaluation_->at(options_.stop_at->metric))) {
    outcome_ = TrainOutcome::kReachedTarget;
  }
  if (!train_.has_early_stopping()) return;
  const bool best =
      early_stopping_.observe(evaluation_->at(early_stopping_.metric()), learner_.steps());
  state_.early_stopping = early_stopping_.state();
  if (best && train_.early_stopping().restore_best()) save_now();
  if (early_stopping_.should_stop() && !outcome_) outcome_ = TrainOutcome::kStoppedEarly;
}

void Trainer::write_delta() {
  if (!deltas_) return;
  const auto start = Clock::now();
  state_.deltas = deltas_->write(learner_.context());
  set_aside(start, "delta");
}

void Trainer::save_now() {
  if (saved_step_ == learner_.steps()) return;
  write_delta();  // a checkpoint says how far servers are that follow
  const auto start = Clock::now();
  const bool keep_best = train_.has_early_stopping() && train_.early_stopping().restore_best();
  checkpoint_ =
      save_run(config_.model_dir(), learner_, state_, config_, train_.keep_checkpoint_max(),
               keep_best ? early_stopping_.state().best_step : -1);
  saved_step_ = learner_.steps();
  if (deltas_) deltas_->remove_old(config_.model_dir(), train_);
  set_aside(start, "checkpoint");
}

void Trainer::after_step(const Batch& batch) {
  const Due now = due(batch);
  if (now.evaluation) {
    evaluate_now();
    observe_evaluation();
  }
  if (now.checkpoint) save_now();
  if (deltas_ && saved_step_ != learner_.steps() && learner_.steps() % train_.delta_steps() == 0)
    write_delta();
}

// The last checkpoint holds the weights that the run is about: the best ones if they are to be
// restored.
void Trainer::finish(TrainSummary& summary) {
  const EarlyStoppingState& best = early_stopping_.state();
  const bool restore = outcome_ != TrainOutcome::kInterrupted && train_.has_early_stopping() &&
                       train_.early_stopping().restore_best() && best.has_best &&
                       best.best_step != learner_.steps();
  if (restore) {
    const int64_t steps = learner_.steps();
    const std::string path = checkpoint_path(config_.model_dir(), best.best_step);
    const RunState best_state = load_run(path, learner_, Restore::kContinue);
    learner_.set_steps(steps);
    state_.metrics = best_state.metrics;
    evaluation_ = Evaluation{.metrics = best_state.metrics};
    evaluated_step_ = steps;
    log_info(cat("restored the best weights, of step ", best.best_step, " (",
                 early_stopping_.metric(), " ", format_metric(best.best), ")"));
    saved_step_ = -1;
  } else if (outcome_ != TrainOutcome::kInterrupted && evaluated_step_ != learner_.steps() &&
             !config_.eval_input_path().empty()) {
    evaluate_now();
  }
  if (options_.last_checkpoint == LastCheckpoint::kSave) save_now();
  if (evaluated_step_ == learner_.steps()) summary.evaluation = evaluation_;
}

TrainSummary Trainer::run() {
  try {
    return train();
  } catch (const Error& error) {
    const bool saves = options_.last_checkpoint == LastCheckpoint::kSave;
    if (saves && is_of_data(error) && learner_.steps() > 0) save_in_spite();
    throw;
  }
}

// What has been learned is not lost for an error, nor the error for one more.
void Trainer::save_in_spite() {
  try {
    save_now();
    log_info(cat("saved ", checkpoint_, "; go on with it by --resume"));
  } catch (const Error& error) {
    log_info(cat("no checkpoint: ", error.what()));
  }
}

TrainSummary Trainer::train() {
  const auto start = Clock::now();
  log_info(learner_.model().describe());
  if (early_stopping_.should_stop() && train_.has_early_stopping())
    outcome_ = TrainOutcome::kStoppedEarly;
  {
    Loader loader(config_.data_config(), layout_, loader_options());
    BatchStream batches(learner_.context(), batches_of(loader));
    progress_.emplace("training", loader.expected_rows());
    progress_->update(0);
    const auto next = [&] {
      const int64_t begin_ns = trace_now();
      const bool found = batches.next();
      trace("load", begin_ns);
      return found;
    };
    auto begin = Clock::now();
    while (!outcome_ && next()) {
      progress_->set_total(loader.expected_rows());
      train_one(batches);
      step_seconds_.push_back(static_cast<float>(seconds_since(begin)));
      after_step(batches.host());
      begin = Clock::now();
      if (interrupted()) outcome_ = TrainOutcome::kInterrupted;
    }
    progress_->set_total(loader.expected_rows());
    bad_rows_ = loader.statistics().bad_rows;
    progress_->finish();
  }
  TrainSummary summary;
  EMBLEM_REQUIRE(learner_.steps() > 0, "no rows to train on in ", config_.train_input_path());
  summary.training_seconds = seconds_since(start) - other_seconds_;
  finish(summary);
  summary.outcome = outcome_.value_or(TrainOutcome::kFinished);
  summary.steps = learner_.steps();
  summary.rows = rows_;
  summary.bad_rows = bad_rows_;
  summary.seconds = seconds_since(start);
  summary.step_seconds_p50 = percentile(step_seconds_, 0.5);
  summary.step_seconds_p99 = percentile(step_seconds_, 0.99);
  summary.last_evaluation_seconds = evaluation_ ? evaluation_->seconds : 0.0;
  dispatch(
      learner_.context().device, [] {},
      [&] {
        const cuda::GpuMemory memory = cuda::gpu_memory();
        summary.device_bytes = memory.total_bytes - memory.free_bytes;
      });
  summary.evaluation_seconds = evaluation_seconds_;
  summary.evaluations = evaluations_;
  summary.checkpoint = checkpoint_;
  return summary;
}

}  // namespace

TrainSummary train(const Context& context, const config::PipelineConfig& config,
                   const TrainOptions& options) {
  return Trainer(context, config, options).run();
}

}  // namespace emblem
