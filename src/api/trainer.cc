#include "emblem/trainer.h"

#include "api/compute.h"
#include "api/data.h"
#include "api/evaluation.h"
#include "api/pipeline.h"
#include "config/load/evaluation_input.h"
#include "core/system/log.h"
#include "data/format/local_input.h"
#include "data/source/uri.h"
#include "model/check/check.h"
#include "train/report/run_setup.h"
#include "train/run/trainer.h"

namespace emblem::api {
namespace {

const char* to_text(TrainOutcome outcome) {
  switch (outcome) {
    case TrainOutcome::kFinished:
      return "finished";
    case TrainOutcome::kStoppedEarly:
      return "stopped early";
    case TrainOutcome::kReachedTarget:
      return "reached the target";
    case TrainOutcome::kInterrupted:
      return "interrupted";
  }
  return "";
}

TrainCallbacks callbacks_of(const TrainingOptions& options) {
  TrainCallbacks made;
  if (options.on_step)
    made.step = [take = options.on_step](const StepReport& report) {
      take({report.step, report.epoch, report.rows, report.expected_rows, report.is_due,
            report.loss, report.samples_per_second, report.metrics});
    };
  if (options.on_evaluation)
    made.evaluation = [take = options.on_evaluation](const EvaluationReport& report) {
      take({report.step, report.epoch, to_public(report.evaluation)});
    };
  if (options.on_evaluating)
    made.evaluating = [take = options.on_evaluating](const PassProgress& progress) {
      take(progress.rows, progress.expected_rows);
    };
  made.checkpoint = options.on_checkpoint;
  made.warning = options.on_warning ? options.on_warning : log_warn;
  return made;
}

TrainOptions options_of(const TrainingOptions& options, const Storage& storage) {
  TrainOptions made{.init_from = options.init_from, .max_steps = options.max_steps};
  if (options.resume) made.model_dir = ModelDir::kResume;
  made.storage = storage;
  made.cancel = CancelToken(options.is_cancelled);
  made.callbacks = callbacks_of(options);
  return made;
}

// The pipeline with the data and the settings of a run, checked.
config::PipelineConfig complete(config::PipelineConfig config, const std::string& train,
                                const std::string& valid, const TrainingOptions& options,
                                const TrainOptions& training) {
  if (!options.model_dir.empty()) config.set_model_dir(options.model_dir);
  EMBLEM_REQUIRE(!is_object_uri(config.model_dir()), "model_dir is ", shown_uri(config.model_dir()),
                 "; expected a folder of this machine");
  if (!train.empty()) config.set_train_input_path(train);
  if (!valid.empty()) {
    config.set_eval_input_path(valid);
    config.mutable_data_config()->clear_holdout_ratio();
    config.mutable_data_config()->clear_holdout_fields();
  }
  set_precision(options.precision, options.device, &config);
  adopt_trained_semantics(training, &config);
  check_pipeline(config);
  if (is_memory_address(config.train_input_path()))
    config.mutable_data_config()->set_dataset_type(config::ArrowDataset);
  else
    follow_local_files(&config);
  for (const std::string& warning : pipeline_warnings(config)) log_warn(warning);
  return config;
}

}  // namespace

struct Trainer::State {
  State(const Pipeline& pipeline, const Data& train, const Data& valid,
        const TrainingOptions& options)
      : storage(open_storage(pipeline.state().config.data_config())),
        train_rows(train, "train", storage),
        valid_rows(valid, "valid", storage),
        training(options_of(options, storage)),
        config(complete(pipeline.state().config, train_rows.input(), valid_rows.input(), options,
                        training)),
        workers(open_workers(options.device,
                             options.threads > 0
                                 ? options.threads
                                 : static_cast<int>(config.train_config().num_threads()))),
        trainer(workers.context, config, training) {}

  const Storage storage;
  const GivenRows train_rows, valid_rows;
  const TrainOptions training;
  const config::PipelineConfig config;
  const Workers workers;
  emblem::Trainer trainer;
};

Trainer::Trainer(const Pipeline& pipeline, const Data& train, const Data& valid,
                 const TrainingOptions& options)
    : state_(std::make_unique<State>(pipeline, train, valid, options)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

bool Trainer::step() { return state_->trainer.step(); }

Evaluation Trainer::evaluate() {
  const auto evaluation = state_->trainer.evaluate();
  if (!evaluation) throw Error(ErrorCode::kCancelled, "interrupted: the evaluation is incomplete");
  return to_public(*evaluation);
}

std::string Trainer::save() { return state_->trainer.save(); }

TrainingResult Trainer::close() {
  const TrainSummary summary = state_->trainer.close();
  TrainingResult result{.outcome = to_text(summary.outcome),
                        .steps = summary.steps,
                        .rows = summary.rows,
                        .bad_rows = summary.bad_rows,
                        .seconds = summary.seconds,
                        .checkpoint = summary.checkpoint};
  if (summary.evaluation) result.evaluation = to_public(*summary.evaluation);
  return result;
}

}  // namespace emblem::api
