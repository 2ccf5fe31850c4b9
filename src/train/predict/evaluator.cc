#include "train/predict/evaluator.h"

#include "config/load/evaluation_input.h"
#include "data/format/local_input.h"
#include "train/state/run_state.h"

namespace emblem {

Evaluator::Evaluator(const config::PipelineConfig& config, const FeatureLayout& layout,
                     Learner& learner, RunClock& clock, std::pmr::memory_resource* memory,
                     const TrainOptions& options)
    : config_(for_evaluation(config, options.storage)),
      layout_(layout),
      learner_(learner),
      clock_(clock),
      memory_(memory),
      options_(options) {}

std::optional<Evaluation> Evaluator::run(const config::PipelineConfig& config) {
  LoaderOptions loading = evaluation_loader_options(config);
  loading.memory = memory_;
  loading.storage = options_.storage;
  return emblem::evaluate(learner_.context(), learner_.model(), config, layout_, loading,
                          learner_.world(),
                          {options_.cancel, options_.callbacks.evaluating, &options_.own_metrics});
}

void Evaluator::try_own_metrics() {
  if (!options_.own_metrics.compute) return;
  EMBLEM_REQUIRE(learner_.world().size() == 1,
                 "metrics of one's own are computed by one process, not ", learner_.world().size(),
                 "; compute them of the trained model");
  EMBLEM_REQUIRE(!evaluation_input(config_).empty(),
                 "metrics of one's own need rows to evaluate on; give valid, or set "
                 "data_config.holdout_ratio");
  config::PipelineConfig few = config_;
  few.mutable_eval_config()->set_num_steps(1);
  run(few);
}

bool Evaluator::evaluate(int64_t epoch) {
  const RunClock::Pause pause(clock_, "evaluation");
  DenseAverage* average =
      evaluated_weights(config_) == DenseWeights::kAverage ? learner_.average() : nullptr;
  if (average != nullptr) swap(*average);
  const auto found = run(config_);
  if (average != nullptr) swap(*average);
  if (!found) return false;
  last_ = found;
  last_step_ = learner_.steps();
  report(epoch, std::nullopt);
  ++count_;
  seconds_ += pause.seconds();
  return true;
}

void Evaluator::swap(DenseAverage& average) {
  average.swap_with(learner_.context(), learner_.model().graph().parameters());
}

void Evaluator::report(int64_t epoch, std::optional<int64_t> restored_step) {
  if (options_.callbacks.evaluation && learner_.world().writes())
    options_.callbacks.evaluation({last_step_, epoch, *last_, restored_step});
}

void Evaluator::take_restored(int64_t epoch, int64_t restored_step,
                              const std::map<std::string, double>& metrics) {
  last_ = Evaluation{.metrics = metrics};
  last_step_ = learner_.steps();
  report(epoch, restored_step);
}

std::optional<Evaluation> Evaluator::current() const {
  return last_step_ == learner_.steps() ? last_ : std::nullopt;
}

}  // namespace emblem
