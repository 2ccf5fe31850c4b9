#include "emblem/trainer.h"

#include <optional>

#include "api/compute.h"
#include "api/data.h"
#include "api/evaluation.h"
#include "api/pipeline.h"
#include "config/load/evaluation_input.h"
#include "core/system/log.h"
#include "data/format/local_input.h"
#include "data/source/uri.h"
#include "model/check/check.h"
#include "ranks/ranks.h"
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
  made.own_metrics = to_internal(options.own_metrics);
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
        rank_options{.launcher = options.ranks_from},
        config(complete_as_rank(pipeline.state().config, options)),
        ranks(rank_options, "auto", config, options.resume,
              cat("library --max-steps ", options.max_steps)),
        workers(open_workers(options.device,
                             options.threads > 0
                                 ? options.threads
                                 : static_cast<int>(config.train_config().num_threads()))) {
    run([&] {
      ranks.open_device(workers.context, "auto");
      training.world = ranks.world();
      trainer.emplace(workers.context, config, training);
    });
  }

  // What a rank does before it meets the others, which are told if it fails.
  config::PipelineConfig complete_as_rank(const config::PipelineConfig& given,
                                          const TrainingOptions& options) {
    silence_other_ranks(rank_options);
    try {
      return complete(given, train_rows.input(), valid_rows.input(), options, training);
    } catch (const Error& error) {
      tell_other_ranks(rank_options, "auto", error);
      throw;
    }
  }

  // After an error the other ranks are told, and the run, which uses the connections, has ended.
  template <class Body>
  void run(const Body& body) {
    ranks.run([&] {
      try {
        body();
      } catch (...) {
        trainer.reset();
        throw;
      }
    });
  }

  emblem::Trainer& open() {
    EMBLEM_REQUIRE(trainer, "the training has ended with an error; make another Trainer");
    return *trainer;
  }

  const Storage storage;
  const GivenRows train_rows, valid_rows;
  TrainOptions training;
  const RankOptions rank_options;
  const config::PipelineConfig config;
  TrainingRanks ranks;
  const Workers workers;
  std::optional<emblem::Trainer> trainer;
};

Trainer::Trainer(const Pipeline& pipeline, const Data& train, const Data& valid,
                 const TrainingOptions& options)
    : state_(std::make_unique<State>(pipeline, train, valid, options)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

bool Trainer::step() {
  bool more = false;
  state_->run([&] { more = state_->open().step(); });
  return more;
}

Evaluation Trainer::evaluate() {
  Evaluation made;
  state_->run([&] {
    const auto evaluation = state_->open().evaluate();
    if (!evaluation)
      throw Error(ErrorCode::kCancelled, "interrupted: the evaluation is incomplete");
    made = to_public(*evaluation);
  });
  return made;
}

std::string Trainer::save() {
  std::string checkpoint;
  state_->run([&] { checkpoint = state_->open().save(); });
  return checkpoint;
}

TrainingResult Trainer::close() {
  TrainSummary summary;
  state_->run([&] { summary = state_->open().close(); });
  TrainingResult result{.outcome = to_text(summary.outcome),
                        .steps = summary.steps,
                        .rows = summary.rows,
                        .bad_rows = summary.bad_rows,
                        .seconds = summary.seconds,
                        .checkpoint = summary.checkpoint,
                        .rank = state_->ranks.world().rank(),
                        .ranks = state_->ranks.world().size()};
  if (summary.evaluation) result.evaluation = to_public(*summary.evaluation);
  return result;
}

}  // namespace emblem::api
