#include "train/evaluator.h"

#include "core/log.h"
#include "data/format/local_input.h"
#include "train/lookup_report.h"
#include "train/run_state.h"

namespace emblem {

Evaluator::Evaluator(const config::PipelineConfig& config, const FeatureLayout& layout,
                     Learner& learner, RunLog* log, RunClock& clock,
                     std::pmr::memory_resource* memory, Storage storage)
    : config_(for_evaluation(config, storage)),
      layout_(layout),
      learner_(learner),
      log_(log),
      clock_(clock),
      memory_(memory),
      storage_(std::move(storage)) {}

bool Evaluator::evaluate(int64_t epoch) {
  const RunClock::Pause pause(clock_, "evaluation");
  LoaderOptions loading = evaluation_loader_options(config_);
  loading.memory = memory_;
  loading.storage = storage_;
  DenseAverage* average =
      evaluated_weights(config_) == DenseWeights::kAverage ? learner_.average() : nullptr;
  if (average != nullptr) swap(*average);
  const auto found = emblem::evaluate(learner_.context(), learner_.model(), config_, layout_,
                                      loading, learner_.world());
  if (average != nullptr) swap(*average);
  if (!found) return false;
  last_ = found;
  last_step_ = learner_.steps();
  if (log_ != nullptr) {
    log_->add_evaluation(last_step_, epoch, found->metrics);
    report(*found);
  }
  ++count_;
  seconds_ += pause.seconds();
  return true;
}

void Evaluator::swap(DenseAverage& average) {
  average.swap_with(learner_.context(), learner_.model().graph().parameters());
}

void Evaluator::report(const Evaluation& evaluation) {
  std::string line = cat("step ", last_step_, ": ", to_text(evaluation));
  if (evaluation.bad_rows > 0) line += cat("  (skipped ", evaluation.bad_rows, " bad rows)");
  log_info(line);
  std::string undefined =
      undefined_metrics_reason(evaluation, config_.data_config().label_positive());
  if (undefined != undefined_) {
    undefined_ = std::move(undefined);
    if (!undefined_.empty()) log_warn(undefined_);
  }
  std::vector<std::string> reported = features_to_report(evaluation.lookups);
  if (reported == reported_) return;
  reported_ = std::move(reported);
  log_missing_values(evaluation.lookups, LookupPass::kEvaluation);
}

void Evaluator::take_restored(int64_t epoch, int64_t restored_step,
                              const std::map<std::string, double>& metrics) {
  last_ = Evaluation{.metrics = metrics};
  last_step_ = learner_.steps();
  if (log_ != nullptr) log_->add_restored(last_step_, epoch, restored_step, metrics);
}

std::optional<Evaluation> Evaluator::current() const {
  return last_step_ == learner_.steps() ? last_ : std::nullopt;
}

}  // namespace emblem
