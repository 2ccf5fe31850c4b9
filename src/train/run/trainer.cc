#include "train/run/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "comm/bytes.h"
#include "comm/sum_all.h"
#include "config/feature/metrics.h"
#include "config/load/evaluation_input.h"
#include "config/load/load.h"
#include "config/load/prediction_layout.h"
#include "core/device/gpu.h"
#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "embedding/files/delta_files.h"
#include "train/learner/lookup_report.h"
#include "train/predict/feature_importance.h"
#include "train/report/run_setup.h"
#include "train/run/rank_agreement.h"
#include "train/state/input_files.h"

namespace emblem {
namespace {

int64_t largest_batch(const config::PipelineConfig& config, const World& world) {
  return std::max(training_batch_size(config, world), evaluation_loader_options(config).batch_size);
}

// "dlrm: 2.37 M dense parameters, 26 tables with ... rows (...)" of all ranks.
std::string size_text(Model& model, const World& world) {
  int64_t parameters = 0;
  for (const Parameter& parameter : model.graph().parameter_list())
    parameters += parameter.rows * parameter.cols;
  std::array<int64_t, 2> sizes = {};
  auto& [rows, bytes] = sizes;
  for (const Table* table : model.tables()) {
    const bool is_copy = !world.writes() && world.is_replicated(table->settings().name);
    rows += is_copy ? 0 : table->size();
    bytes += table->bytes();
  }
  sum_all(Context{}, *world.ranks, std::span(sizes));
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

// The storage of remote data is needed in any case.
TrainOptions complete(TrainOptions options, const config::PipelineConfig& config) {
  if (options.storage == nullptr) options.storage = open_storage(config.data_config());
  return options;
}

int64_t unix_ms_now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

Trainer::Trainer(const Context& context, const config::PipelineConfig& config,
                 const TrainOptions& options)
    : options_(complete(options, config)),
      config_(check_run(with_absolute_paths(with_trained_semantics(config, options_)), options_)),
      train_(config_.train_config()),
      layout_(training_layout(layout_of(config_), config_.model_config())),
      lock_(lock_model_dir()),
      resumed_(find_resumed()),
      init_from_(checkpoint_to_begin_with(config_, options_)),
      learner_(context, config_, layout_, largest_batch(config_, world()), world()),
      memory_(batch_memory(context)),
      intervals_(config_, options_.max_steps),
      early_stopping_(train_.early_stopping()),
      watch_(config_, layout_, learner_),
      clock_(options_.trace) {
  load();
  // Everything is checked and loaded. From here on, files are written.
  open_files();
  log_info(size_text(learner_.model(), world()));
  if (context.device == Device::kCpu && train_.mixed_precision() == "FP16")
    warn(
        "train_config.mixed_precision FP16 has no effect on a CPU, which computes in FP32; give "
        "BF16, or a GPU (--device cuda)");
  if (!evaluation_input(config_).empty())
    for (const std::string& note : metric_notes(heads_of(config_, layout_))) log_info(note);
  if (resumed_ && intervals_.steps_left(learner_.steps()) == 0)
    log_info(cat("nothing to train: ", *resumed_, " has reached the number of steps already"));
  if (train_.has_early_stopping() && early_stopping_.should_stop())
    outcome_ = TrainOutcome::kStoppedEarly;
  clock_.start();
  clock_.begin_step();
}

// ---- the beginning ----

// Ranks agree on data and folder first: one that was started on its own would wait for the others.
std::unique_ptr<ModelDirLock> Trainer::lock_model_dir() const {
  require_same_data(world(), config_, options_.storage);
  require_same_files(world(), config_);
  require_same_samples(world(), config_, options_.storage);
  std::unique_ptr<ModelDirLock> lock;
  if (world().writes()) lock = std::make_unique<ModelDirLock>(config_.model_dir());
  require_shared_folder(world(), config_.model_dir());
  return lock;
}

// All ranks continue what rank 0 finds.
std::optional<std::string> Trainer::find_resumed() const {
  std::string found;
  if (world().writes()) found = checkpoint_to_resume(config_, options_).value_or("");
  broadcast_bytes(*world().ranks, found);
  return found.empty() ? std::nullopt : std::optional(found);
}

void Trainer::load() {
  require_same_start(world(), resumed_.value_or(init_from_));
  state_.positions.resize(static_cast<size_t>(world().own_shards()));
  if (resumed_) {
    state_ = load_run(*resumed_, learner_);
    early_stopping_.restore(state_.early_stopping);
    log_info(cat("resuming from ", *resumed_));
  } else if (!init_from_.empty()) {
    log_info(to_text(load_weights(init_from_, learner_, options_.warm_start)));
  }
  remember_input_files();
  first_step_ = learner_.steps();
  learner_.set_divergence_advice([this] { return watch_.advice(); });
  learner_.model().stage_clock().trace_to(options_.trace);
  if (options_.batches == TrainBatches::kGiven) {
    given_.emplace(learner_.context(), world());
    return;
  }
  batches_.emplace(learner_.context(), config_, layout_, world(), loader_options(),
                   state_.positions, clock_, options_.cancel);
  state_.positions = batches_->positions();
}

// Within an epoch a run continues at a place in the files that it has read.
void Trainer::remember_input_files() {
  if (options_.batches == TrainBatches::kGiven) return;
  std::optional<InputFiles> input, sampled;
  // Only one rank compares and stores them. A stream continues with other items.
  if (world().writes()) input = input_files_of(config_, options_.storage);
  if (input) sampled = sampler_files_of(config_, options_.storage);
  const bool is_within_epoch =
      std::ranges::any_of(state_.positions, [](const auto& at) { return at.rows_in_epoch > 0; });
  if (!is_within_epoch) state_.input_files = state_.sampler_files = std::nullopt;
  if (resumed_) {
    require_files_of_run(world(), state_.input_files, input, config_.train_input_path());
    require_files_of_run(world(), state_.sampler_files, sampled, "the sampler of data_config");
  }
  state_.input_files = input;
  state_.sampler_files = sampled;
}

void Trainer::open_files() {
  const std::string& dir = config_.model_dir();
  evaluator_.emplace(config_, layout_, learner_, clock_, memory_.get(), options_);
  evaluator_->try_own_metrics();
  world().ranks->barrier();  // all have looked at the folder
  if (world().writes()) {
    remove_leftovers(dir);
    remove_unfinished_deltas(dir + "/deltas");
    write_text_file_atomically(dir + "/" + kConfigFile, to_stored_text(config_));
  }
  checkpoints_.emplace(config_, learner_, clock_, state_, resumed_.value_or(""));
}

LoaderOptions Trainer::loader_options() const {
  LoaderOptions options = training_loader_options(config_);
  options.batch_size = training_batch_size(config_, world());
  options.storage = options_.storage;
  options.memory = memory_.get();
  options.max_batches = intervals_.steps_left(learner_.steps());
  return options;
}

template <class Body>
auto Trainer::guarded(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    save_after(error);
    throw;
  }
}

// ---- steps ----

bool Trainer::step() {
  EMBLEM_REQUIRE(batches_, "this run has no data of its own; pass a batch to step()");
  return guarded([this] {
    // A run that was stopped between a step and the evaluation that was due then.
    if (rows_ == 0 && state_.evaluation_due) {
      evaluate_due();
      clock_.begin_step();
    }
    if (outcome_) return false;
    const StepBatches* next = batches_->next([this] { wait_idle(); });
    if (batches_->was_cancelled()) outcome_ = TrainOutcome::kInterrupted;
    if (next == nullptr) return false;
    learn(*next);
    return true;
  });
}

bool Trainer::step(const Batch& batch) {
  EMBLEM_REQUIRE(given_, "this run reads its own data; call step() without a batch");
  return guarded([&] {
    if (outcome_ || intervals_.steps_left(learner_.steps()) == 0) return false;
    const StepBatches* next = given_->take(batch, options_.cancel.is_cancelled());
    if (given_->was_cancelled()) outcome_ = TrainOutcome::kInterrupted;
    if (next != nullptr) learn(*next);
    return !outcome_;
  });
}

void Trainer::learn(const StepBatches& step) {
  state_.epoch = step.epoch;
  state_.step_begin_unix_ms = unix_ms_now();
  if (const auto window = watch_.begin_step(step)) report(*window);
  last_step_ = learner_.step(
      step.shards, step.rows, step.epoch, [&](size_t shard) { watch_.add(*step.hosts[shard]); },
      batches_ ? [this] { return batches_->look_ahead(); } : Learner::ComingShards());
  if (batches_) state_.positions = batches_->positions();
  rows_ += step.all_rows;
  if (world().writes()) {
    if (const auto warning = watch_.end_step(last_step_.loss)) warn(*warning);
    report_step(intervals_.after(learner_.steps(), step.end).log || !window_.empty());
  }
  state_.epoch = step.end.next_epoch;
  state_.step_end_unix_ms = unix_ms_now();
  clock_.end_step();
  after_step(step.end);
  clock_.begin_step();
}

// Servers get what was learned before the stream became idle.
void Trainer::wait_idle() {
  if (rows_ > 0)
    checkpoints_->write_delta(state_);
  else
    batches_->wait_for_first();
}

int64_t Trainer::expected_rows() const {
  if (!batches_) return 0;
  // Several shards are not all of the size of the first.
  return batches_->has_ended() && world().shards > 1 ? rows_ : batches_->expected_rows();
}

// ---- reports ----

// Called by the rank that writes.
void Trainer::report_step(bool is_due) {
  if (is_due) reported_step_ = learner_.steps();
  if (!options_.callbacks.step) return;
  StepReport report{.step = learner_.steps(),
                    .epoch = state_.epoch,
                    .rows = rows_,
                    .expected_rows = expected_rows(),
                    .is_due = is_due,
                    .loss = last_step_.loss,
                    .gradient_norm = last_step_.gradient_norm,
                    .sparse_rate = last_step_.sparse_rate,
                    .dense_rate = last_step_.dense_rate,
                    .skipped_steps = learner_.skipped_steps(),
                    .metrics = watch_.metrics()};
  if (!last_step_.losses.empty()) {
    const std::vector<std::string> names = learner_.model().loss_names();
    for (size_t i = 0; i < names.size(); ++i) report.losses[names[i]] = last_step_.losses[i];
  }
  if (is_due) {
    report.samples_per_second = clock_.rows_per_second(rows_);
    report.progressive = std::exchange(window_, {});
  }
  if (batches_ && batches_->is_stream())
    report.stream = {{"lag_messages", static_cast<double>(batches_->lag().messages)},
                     {"lag_seconds", batches_->lag().seconds}};
  options_.callbacks.step(report);
}

void Trainer::report(const ProgressiveValidation::Window& window) {
  window_ = window.metrics;
  window_["rows"] = static_cast<double>(window.rows);
  if (options_.callbacks.validation)
    options_.callbacks.validation({learner_.steps(), window, batches_->lag()});
}

void Trainer::warn(const std::string& text) const {
  if (options_.callbacks.warning && world().writes()) options_.callbacks.warning(text);
}

void Trainer::report_saved() {
  if (!options_.callbacks.checkpoint || !world().writes()) return;
  const RunClock::Pause pause(clock_, "upload");
  options_.callbacks.checkpoint(checkpoints_->latest());
}

// ---- what is due ----

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
  if (due.checkpoint || due.evaluation || due.delta) report_saved();
}

std::optional<Evaluation> Trainer::evaluate() {
  return guarded([this]() -> std::optional<Evaluation> {
    EMBLEM_REQUIRE(!evaluation_input(config_).empty(),
                   "nothing to evaluate on; set eval_input_path or data_config.holdout_ratio");
    if (!evaluate_now()) return std::nullopt;
    checkpoints_->update(state_);
    return evaluator_->current();
  });
}

std::string Trainer::save() {
  return guarded([this] {
    checkpoints_->save(state_);
    report_saved();
    return checkpoints_->latest();
  });
}

// False when it was cancelled.
bool Trainer::evaluate_now() {
  watch_.count_lookups();
  if (!evaluator_->evaluate(state_.epoch)) {
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
  if (const auto warning = watch_.end_losses()) warn(*warning);
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
    if (world().writes()) open_checkpoint(checkpoint, Verify::kSizes);
  } catch (const Error& error) {
    problem = error.what();
  }
  broadcast_bytes(*world().ranks, problem);
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
    warn(cat("cannot restore the best weights, of step ", best.best_step, ": ", problem,
             "; the run ends with those of step ", steps));
    return false;
  }
  state_.metrics = load_run(path, learner_).metrics;
  learner_.set_steps(steps);
  evaluator_->take_restored(state_.epoch, best.best_step, state_.metrics);
  log_info(cat("restored the best weights, of step ", best.best_step, " (",
               early_stopping_.metric(), " ", format_metric(best.best), ")"));
  return true;
}

// What was learned before an error in the data is kept. A second error must not hide the first.
void Trainer::save_after(const Error& error) {
  const bool saves = options_.last_checkpoint == LastCheckpoint::kSave;
  // The other ranks end, too: they cannot write their parts.
  if (world().size() > 1) return;
  if (!saves || !is_of_data(error) || learner_.steps() == 0) return;
  try {
    checkpoints_->save(state_);
    log_info(cat("saved ", checkpoints_->latest(), "; continue with --resume"));
  } catch (const Error& another) {
    warn(cat("no checkpoint was saved: ", another.what()));
  }
}

// After the last step.
void Trainer::end_steps() {
  if (const auto window = watch_.end_validation()) report(*window);
  if (world().writes() && rows_ > 0 && (reported_step_ != learner_.steps() || !window_.empty()))
    report_step(true);
  watch_.sum_lookups();
  bad_rows_ = batches_ ? batches_->bad_rows() : 0;
  sum_all(Context{}, *world().ranks, std::span(&bad_rows_, 1));
  // An interrupted run keeps its loaders to its very end: they may wait for a store that does not
  // answer.
  if (outcome_ != TrainOutcome::kInterrupted) batches_.reset();
}

TrainSummary Trainer::close() {
  return guarded([this] {
    end_steps();
    EMBLEM_REQUIRE(learner_.steps() > 0 || outcome_ || given_, "no rows to train on in ",
                   config_.train_input_path().substr(0, config_.train_input_path().find('?')));
    check_skipped_steps();
    training_seconds_ = clock_.training_seconds();
    if (learner_.steps() > 0) finish();
    if (world().writes()) log_missing_values(watch_.lookups(), LookupPass::kTraining);
    for (const std::string& line : to_lines(feature_importance(
             learner_.context(), config_.model_config(), learner_.model().graph())))
      log_info(line);
    lock_.reset();
    return summary();
  });
}

// A run that has learned nothing is an error, unless an earlier part of it may have and the next
// may again.
void Trainer::check_skipped_steps() const {
  const int64_t skipped = learner_.skipped_steps();
  if (skipped == 0 || skipped < learner_.steps() - first_step_) return;
  const std::string found =
      cat("all ", skipped, " steps were skipped: gradients overflowed in fp16 (the loss scale is ",
          learner_.loss_scaler().scale(),
          "); set grad_scaler { init_scale } lower and growth_interval above 0, or use --precision "
          "bf16");
  const bool may_go_on = resumed_ && learner_.loss_scaler().can_fall();
  if (may_go_on || outcome_ == TrainOutcome::kInterrupted) return warn(found);
  throw CommonError(ErrorCode::kInvalidArgument, found);
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
                       .lookups = by_feature(watch_.lookups()),
                       .checkpoint = checkpoints_->latest()};
  dispatch(
      learner_.context().device, [] {},
      [&] {
        const cuda::GpuMemory memory = cuda::gpu_memory();
        summary.device_bytes = memory.total_bytes - memory.free_bytes;
      });
  return summary;
}

}  // namespace emblem
