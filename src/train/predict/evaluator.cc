#include "train/predict/evaluator.h"

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

bool Evaluator::evaluate(int64_t epoch) {
  const RunClock::Pause pause(clock_, "evaluation");
  LoaderOptions loading = evaluation_loader_options(config_);
  loading.memory = memory_;
  loading.storage = options_.storage;
  DenseAverage* average =
      evaluated_weights(config_) == DenseWeights::kAverage ? learner_.average() : nullptr;
  if (average != nullptr) swap(*average);
  const auto found =
      emblem::evaluate(learner_.context(), learner_.model(), config_, layout_, loading,
                       learner_.world(), {options_.cancel, options_.callbacks.evaluating});
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
