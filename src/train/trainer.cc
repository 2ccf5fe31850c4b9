#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "comm/bytes.h"
#include "comm/sum_all.h"
#include "config/evaluation_input.h"
#include "config/load.h"
#include "config/metrics.h"
#include "config/prediction_layout.h"
#include "config/print.h"
#include "config/semantics.h"
#include "core/file.h"
#include "core/gpu.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/text.h"
#include "embedding/files/delta_files.h"
#include "kafka/address.h"
#include "train/feature_importance.h"
#include "train/rank_agreement.h"
#include "train/trainer_run.h"

namespace emblem {
namespace {

int64_t largest_batch(const config::PipelineConfig& config, const World* world) {
  return std::max(training_batch_size(config, world), evaluation_loader_options(config).batch_size);
}

// "dlrm: 2.37 M dense parameters, 26 tables with ... rows (...)"; on several ranks: of all.
std::string size_text(Model& model, const World* world) {
  int64_t parameters = 0;
  for (const Parameter& parameter : model.graph().parameter_list())
    parameters += parameter.rows * parameter.cols;
  std::array<int64_t, 2> sizes = {};
  auto& [rows, bytes] = sizes;
  for (const Table* table : model.tables()) {
    const bool is_copy =
        world != nullptr && world->rank() != 0 && world->is_replicated(table->settings().name);
    rows += is_copy ? 0 : table->size();
    bytes += table->bytes();
  }
  if (world != nullptr) sum_all(Context{}, *world->ranks, std::span(sizes));
  return cat(model.name(), ": ", format_count(static_cast<double>(parameters)),
             " dense parameters, ", model.tables().size(), " tables with ",
             format_count(static_cast<double>(rows)), " rows (",
             format_bytes(static_cast<double>(bytes)), ")");
}

// Whether the data, not the machine, is at fault.
bool is_of_data(const Error& error) {
  return error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kNotFound ||
         error.code() == ErrorCode::kCorruption;
}

LossWatch::Scale scale_of_losses(const std::vector<HeadSpec>& heads) {
  const bool numbers = std::any_of(heads.begin(), heads.end(), [](const HeadSpec& head) {
    return head.kind == HeadKind::kNumber;
  });
  return numbers ? LossWatch::Scale::kLabels : LossWatch::Scale::kClasses;
}

}  // namespace

Trainer::Trainer(const Context& context, const config::PipelineConfig& config,
                 const TrainOptions& options)
    : config_(check_run(with_absolute_paths(config), options)),
      train_(config_.train_config()),
      options_(options),
      layout_(training_layout(layout_of(config_), config_.model_config())),
      lock_(lock_model_dir()),
      resumed_(find_resumed()),
      init_from_(checkpoint_to_begin_with(config_, options)),
      learner_(context, config_, layout_, largest_batch(config_, options.world), options.world),
      memory_(batch_memory(context)),
      intervals_(config_, options.max_steps),
      early_stopping_(train_.early_stopping()),
      loss_watch_(layout_, scale_of_losses(heads_of(config_, layout_))),
      train_metrics_(heads_of(config_, layout_)),
      progressive_(config_, layout_, options.world),
      clock_(options.trace) {
  if (is_kafka_address(config_.train_input_path()))
    stream_watch_.emplace(parse_kafka_address(config_.train_input_path()).topic);
  load();
  // Everything is checked and loaded. From here on, files are written.
  open_files();
}

// ---- the beginning ----

// Ranks agree on data and folder first: one that was started on its own would wait for the others.
std::unique_ptr<ModelDirLock> Trainer::lock_model_dir() const {
  if (options_.world != nullptr) {
    require_same_data(*options_.world, config_, options_.storage);
    require_same_files(*options_.world, config_);
  }
  std::unique_ptr<ModelDirLock> lock;
  if (writes()) lock = std::make_unique<ModelDirLock>(config_.model_dir());
  if (options_.world != nullptr) require_shared_folder(*options_.world, config_.model_dir());
  return lock;
}

// All ranks continue what rank 0 finds.
std::optional<std::string> Trainer::find_resumed() const {
  if (options_.world == nullptr) return checkpoint_to_resume(config_, options_);
  std::string found;
  if (writes()) found = checkpoint_to_resume(config_, options_).value_or("");
  broadcast_bytes(*options_.world->ranks, found);
  return found.empty() ? std::nullopt : std::optional(found);
}

void Trainer::load() {
  if (options_.world != nullptr) require_same_start(*options_.world, resumed_.value_or(init_from_));
  if (resumed_) {
    state_ = load_run(*resumed_, learner_);
    early_stopping_.restore(state_.early_stopping);
    log_info(cat("resuming from ", *resumed_));
  } else if (!init_from_.empty()) {
    log_info(to_text(load_weights(init_from_, learner_, options_.warm_start)));
  }
  first_step_ = learner_.steps();
  learner_.set_divergence_advice([this] { return loss_watch_.advice(); });
  learner_.model().stage_clock().trace_to(options_.trace);
  if (options_.world != nullptr)
    open_streams();
  else
    loader_.emplace(config_.data_config(), layout_, loader_options());
}

void Trainer::open_files() {
  const std::string& dir = config_.model_dir();
  if (options_.world != nullptr) options_.world->ranks->barrier();  // all have looked at the folder
  if (writes()) {
    remove_leftovers(dir);
    remove_unfinished_deltas(dir + "/deltas");
    write_text_file_atomically(dir + "/" + kConfigFile, to_stored_text(config_));
    log_.emplace(dir, train_, learner_.steps());
  }
  evaluator_.emplace(config_, layout_, learner_, log_ ? &*log_ : nullptr, clock_, memory_.get(),
                     options_.storage);
  checkpoints_.emplace(config_, learner_, clock_, state_, resumed_.value_or(""));
}

LoaderOptions Trainer::loader_options() const {
  LoaderOptions options = training_loader_options(config_);
  options.batch_size = training_batch_size(config_, options_.world);
  options.start = state_.position;
  options.storage = options_.storage;
  options.memory = memory_.get();
  options.max_batches = intervals_.steps_left(learner_.steps());
  return options;
}

// ---- the loop ----

int64_t Trainer::unix_ms_now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

void Trainer::train_all_batches() {
  BatchStream batches(learner_.context(), batches_of(*loader_));
  progress_.emplace("training", loader_->expected_rows());
  progress_->update(0);
  const auto next = [&] { return clock_.traced("load", [&] { return batches.next(); }); };
  clock_.begin_step();
  while (!outcome_ && wait_for_batch() && next()) {
    progress_->set_total(loader_->expected_rows());
    train_one(batches);
    clock_.end_step();
    after_step(end_of(batches.host()));
    clock_.begin_step();
    if (interrupted()) outcome_ = TrainOutcome::kInterrupted;
  }
  progress_->set_total(loader_->expected_rows());
  progress_->finish();
  if (const auto window = progressive_.finish()) report(*window);
  if (rows_ > 0 && (log_->last_step() != learner_.steps() || !window_.empty())) log_step();
  bad_rows_ = loader_->statistics().bad_rows;
  count_lookups();
}

// Until there is a batch, or the end of the data. A stream may have none for long: servers then get
// what was learned, and a signal ends the run.
bool Trainer::wait_for_batch() {
  if (!is_stream()) return true;
  while (true) {
    const bool is_ready = loader_->wait(kStreamWait);
    stream_watch_->set_problem(stream_lag().problem);
    if (is_ready) return true;
    if (rows_ > 0)
      checkpoints_->write_delta(state_);
    else
      stream_watch_->wait_for_first();
    if (!interrupted()) continue;
    outcome_ = TrainOutcome::kInterrupted;
    return false;
  }
}

// An evaluation discards the counts of what came before it, so they are taken first.
void Trainer::count_lookups() {
  add_lookups(learner_.model().take_lookup_counts(learner_.context()), lookups_);
}

void Trainer::train_one(BatchStream& batches) {
  const Batch& batch = batches.host();
  state_.step_begin_unix_ms = unix_ms_now();
  const auto coming = [&]() -> const ModelBatch* {
    if (!loader_->wait(std::chrono::milliseconds(0))) return nullptr;
    return clock_.traced("load", [&] { return batches.look_ahead(); });
  };
  if (progressive_.is_on()) validate(batches.batch(), batch);
  loss_watch_.begin_step(batch);
  last_step_ = learner_.step(batches.batch(), state_.position.epoch, coming);
  if (const auto warning = loss_watch_.end_step(learner_.steps(), last_step_.loss)) {
    progress_->interrupt();
    log_warn(*warning);
  }
  if (!train_metrics_.empty())
    train_metrics_.add(batch, logits_.of(learner_.context(), learner_.model(), batch.rows));
  rows_ += batch.rows;
  if (intervals_.after(learner_.steps(), end_of(batch)).log || !window_.empty()) log_step();
  show_progress();
  state_.position = batch.next;
  state_.step_end_unix_ms = unix_ms_now();
}

void Trainer::show_progress() {
  progress_->update(
      rows_, cat(step_text(), ", step ", learner_.steps(), ", epoch ", state_.position.epoch + 1));
}

void Trainer::log_step() {
  const int64_t epoch = state_.position.epoch;
  log_->add_step({.step = learner_.steps(),
                  .epoch = epoch,
                  .loss = last_step_.loss,
                  .gradient_norm = last_step_.gradient_norm,
                  .samples_per_second = clock_.rows_per_second(rows_),
                  .sparse_rate = last_step_.sparse_rate,
                  .dense_rate = last_step_.dense_rate,
                  .skipped_steps = learner_.skipped_steps(),
                  .losses = last_losses(),
                  .metrics = train_metrics_.values(),
                  .stream = lag_values(),
                  .progressive = std::exchange(window_, {})});
}

// Before the batch is learned.
void Trainer::validate(const ModelBatch& batch, const Batch& host) {
  count_lookups();
  const auto window = progressive_.add(learner_.context(), learner_.model(), batch, host);
  learner_.model().take_lookup_counts(learner_.context());  // not of training
  if (window) report(*window);
}

void Trainer::report(const ProgressiveValidation::Window& window) {
  progress_->interrupt();
  const StreamLag lag = stream_lag();
  log_info(cat("step ", learner_.steps(), ": ", to_text(Evaluation{.metrics = window.metrics}),
               "  (progressive validation of ", window.rows, " rows; ", lag.messages,
               " messages and ", format_metric(lag.seconds), " s behind)"));
  window_ = window.metrics;
  window_["rows"] = static_cast<double>(window.rows);
}

StreamLag Trainer::stream_lag() const { return loader_ ? loader_->statistics().lag : rank_lag_; }

std::map<std::string, double> Trainer::lag_values() const {
  if (!is_stream()) return {};
  const StreamLag lag = stream_lag();
  return {{"lag_messages", static_cast<double>(lag.messages)}, {"lag_seconds", lag.seconds}};
}

// By name; empty where there is only one.
std::map<std::string, double> Trainer::last_losses() {
  std::map<std::string, double> losses;
  if (last_step_.losses.empty()) return losses;
  const std::vector<std::string> names = learner_.model().graph().loss_names();
  for (size_t i = 0; i < names.size(); ++i) losses[names[i]] = last_step_.losses[i];
  return losses;
}

// "loss 0.5 (a 0.2, b 0.3), auc 0.71"
std::string Trainer::step_text() {
  std::string text = "loss " + format_metric(last_step_.loss);
  std::string parts;
  for (const auto& [name, value] : last_losses())
    parts += cat(parts.empty() ? "" : ", ", name, " ", format_metric(value));
  if (!parts.empty()) text += " (" + parts + ")";
  for (const auto& [name, value] : train_metrics_.values())
    text += cat(", ", name, " ", format_metric(value));
  return text;
}

// A checkpoint comes before the evaluation of its step: a process that is killed while it evaluates
// loses nothing. What the evaluation changes is added afterwards.
void Trainer::after_step(const StepEnd& end) {
  const Due due = intervals_.after(learner_.steps(), end, stream_unix_ms_);
  stream_unix_ms_ = std::max(stream_unix_ms_, end.unix_ms);
  const bool saves_last = options_.last_checkpoint == LastCheckpoint::kSave &&
                          intervals_.ends_after(learner_.steps(), end);
  state_.evaluation_due = due.evaluation;
  if (due.checkpoint || (due.evaluation && saves_last)) checkpoints_->save(state_);
  if (due.evaluation) evaluate_due();
  if (due.delta) checkpoints_->write_delta(state_);
  if (!options_.after_saving || !(due.checkpoint || due.evaluation || due.delta)) return;
  const RunClock::Pause pause(clock_, "upload");
  options_.after_saving();
}

// ---- evaluations ----

// False when it was interrupted.
bool Trainer::evaluate_now() {
  if (progress_) progress_->interrupt();
  count_lookups();
  if (!evaluator_->evaluate(state_.position.epoch)) {
    outcome_ = TrainOutcome::kInterrupted;
    return false;
  }
  state_.metrics = evaluator_->current()->metrics;
  return true;
}

void Trainer::evaluate_due() {
  if (!evaluate_now()) return;
  state_.evaluation_due = false;
  observe_evaluation();
  checkpoints_->update(state_);
}

// Lets schedules, early stopping and --stop-at see a scheduled evaluation.
void Trainer::observe_evaluation() {
  for (const auto& [name, value] : state_.metrics) learner_.observe(name, value);
  if (options_.stop_at && options_.stop_at->reached(state_.metrics.at(options_.stop_at->metric)))
    outcome_ = TrainOutcome::kReachedTarget;
  if (!train_.has_early_stopping()) return;
  const bool best =
      early_stopping_.observe(state_.metrics.at(early_stopping_.metric()), learner_.steps());
  state_.early_stopping = early_stopping_.state();
  if (best && train_.early_stopping().restore_best()) checkpoints_->save_best(state_);
  if (early_stopping_.should_stop() && !outcome_) outcome_ = TrainOutcome::kStoppedEarly;
}

// ---- the end ----

// The last checkpoint holds the weights that the run is about: the best ones if they are to be
// restored.
void Trainer::finish() {
  if (const auto warning = loss_watch_.end_run(); warning && writes()) log_warn(*warning);
  const bool saves = options_.last_checkpoint == LastCheckpoint::kSave;
  if (outcome_ != TrainOutcome::kInterrupted && restore_best()) {
    if (saves) checkpoints_->save_restored(state_);
    return;
  }
  if (saves) checkpoints_->save(state_);
  const bool evaluates = outcome_ != TrainOutcome::kInterrupted && !evaluator_->current() &&
                         !evaluation_input(config_).empty();
  if (evaluates && evaluate_now()) checkpoints_->update(state_);
}

// Why the checkpoint cannot be loaded, "" if it can: as rank 0 finds, so that all ranks do the
// same.
std::string Trainer::problem_of(const std::string& checkpoint) const {
  std::string problem;
  try {
    if (writes()) open_checkpoint(checkpoint, Verify::kSizes);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (options_.world != nullptr) broadcast_bytes(*options_.world->ranks, problem);
  return problem;
}

// False when the weights are the best already, or when that is not asked for.
bool Trainer::restore_best() {
  const EarlyStoppingState& best = early_stopping_.state();
  if (!train_.has_early_stopping() || !train_.early_stopping().restore_best() || !best.has_best ||
      best.best_step == learner_.steps())
    return false;
  const int64_t steps = learner_.steps();
  const std::string path = checkpoint_path(config_.model_dir(), best.best_step);
  const std::string problem = problem_of(path);
  if (!problem.empty()) {
    if (writes())
      log_warn(cat("cannot restore the best weights, of step ", best.best_step, ": ", problem,
                   "; the run ends with those of step ", steps));
    return false;
  }
  state_.metrics = load_run(path, learner_).metrics;
  learner_.set_steps(steps);
  evaluator_->take_restored(state_.position.epoch, best.best_step, state_.metrics);
  log_info(cat("restored the best weights, of step ", best.best_step, " (",
               early_stopping_.metric(), " ", format_metric(best.best), ")"));
  return true;
}

// What was learned before an error in the data is kept. A second error must not hide the first.
void Trainer::save_after(const Error& error) {
  const bool saves = options_.last_checkpoint == LastCheckpoint::kSave;
  // The other ranks end, too: they cannot write their parts.
  if (options_.world != nullptr) return;
  if (!saves || !is_of_data(error) || learner_.steps() == 0) return;
  try {
    checkpoints_->save(state_);
    log_info(cat("saved ", checkpoints_->latest(), "; continue with --resume"));
  } catch (const Error& another) {
    log_warn(cat("no checkpoint was saved: ", another.what()));
  }
}

TrainSummary Trainer::run() {
  clock_.start();
  log_info(size_text(learner_.model(), options_.world));
  if (!evaluation_input(config_).empty())
    for (const std::string& note : metric_notes(heads_of(config_, layout_))) log_info(note);
  if (resumed_ && intervals_.steps_left(learner_.steps()) == 0)
    log_info(cat("nothing to train: ", *resumed_, " has reached the number of steps already"));
  if (train_.has_early_stopping() && early_stopping_.should_stop())
    outcome_ = TrainOutcome::kStoppedEarly;
  try {
    if (state_.evaluation_due) evaluate_due();
    if (options_.world != nullptr) {
      train_all_batches_of_ranks();
    } else {
      if (interrupted()) outcome_ = TrainOutcome::kInterrupted;
      train_all_batches();
    }
    loader_.reset();
    EMBLEM_REQUIRE(learner_.steps() > 0 || outcome_, "no rows to train on in ",
                   config_.train_input_path().substr(0, config_.train_input_path().find('?')));
    check_skipped_steps();
    training_seconds_ = clock_.training_seconds();
    if (learner_.steps() > 0) finish();
    if (writes()) log_missing_values(lookups_, LookupPass::kTraining);
    for (const std::string& line : to_lines(feature_importance(
             learner_.context(), config_.model_config(), learner_.model().graph())))
      log_info(line);
  } catch (const Error& error) {
    save_after(error);
    throw;
  }
  return summary();
}

// A run that has learned nothing is an error, unless an earlier part of it may have.
void Trainer::check_skipped_steps() const {
  const int64_t skipped = learner_.skipped_steps();
  if (skipped == 0 || skipped < learner_.steps() - first_step_) return;
  const std::string found =
      cat("all ", skipped, " steps were skipped: gradients overflowed in fp16 (the loss scale is ",
          learner_.loss_scaler().scale(),
          "); set grad_scaler { init_scale } lower and growth_interval above 0, or use --precision "
          "bf16");
  if (resumed_ || outcome_ == TrainOutcome::kInterrupted) {
    if (writes()) log_warn(found);
    return;
  }
  if (options_.world != nullptr) throw CommonError(ErrorCode::kInvalidArgument, found);
  throw Error(ErrorCode::kInvalidArgument, found);
}

TrainSummary Trainer::summary() const {
  TrainSummary summary{.outcome = outcome_.value_or(TrainOutcome::kFinished),
                       .steps = learner_.steps(),
                       .rows = rows_,
                       .bad_rows = bad_rows_,
                       .skipped_steps = learner_.skipped_steps(),
                       .seconds = clock_.seconds(),
                       .training_seconds = training_seconds_,
                       .step_seconds_p50 = clock_.step_seconds(0.5),
                       .step_seconds_p99 = clock_.step_seconds(0.99),
                       .evaluation_seconds = evaluator_->seconds(),
                       .last_evaluation_seconds = evaluator_->last_seconds(),
                       .evaluations = evaluator_->count(),
                       .evaluation = evaluator_->current(),
                       .lookups = by_feature(lookups_),
                       .checkpoint = checkpoints_->latest()};
  dispatch(
      learner_.context().device, [] {},
      [&] {
        const cuda::GpuMemory memory = cuda::gpu_memory();
        summary.device_bytes = memory.total_bytes - memory.free_bytes;
      });
  return summary;
}

void adopt_trained_semantics(const TrainOptions& options, config::PipelineConfig* config) {
  std::optional<std::string> checkpoint;
  const std::string initial = checkpoint_to_begin_with(*config, options);
  if (!initial.empty()) checkpoint = initial;
  if (options.model_dir == ModelDir::kResume && !config->model_dir().empty())
    if (auto latest = latest_checkpoint(config->model_dir(), Skipped::kIgnore))
      checkpoint = std::move(latest);
  if (!checkpoint) return config->mutable_data_config()->clear_column_types();
  adopt_semantics(load_stored_pipeline(*checkpoint), *checkpoint, config);
  if (config->semantics_version() < kCurrentSemantics)
    log_info(cat(*checkpoint,
                 " was trained by an earlier Emblem; its features and layers keep their "
                 "meaning (semantics_version ",
                 config->semantics_version(), ")"));
}

TrainSummary train(const Context& context, const config::PipelineConfig& config,
                   const TrainOptions& options) {
  config::PipelineConfig trained = config;
  if (!config.has_semantics_version()) adopt_trained_semantics(options, &trained);
  TrainOptions complete = options;
  if (complete.storage == nullptr) complete.storage = open_storage(trained.data_config());
  return Trainer(context, trained, complete).run();
}

}  // namespace emblem
