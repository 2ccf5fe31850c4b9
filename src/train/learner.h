// train/learner.h - a model with its optimizers: everything that changes when a batch is learned.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "model/model.h"
#include "optim/dense_optimizer.h"
#include "optim/schedule.h"
#include "train/loss_scaler.h"

namespace emblem {

struct StepResult {
  double loss = 0.0;
  double gradient_norm = 0.0;  // 0 unless gradients are clipped by norm
  bool skipped = false;        // fp16 gradients overflowed: nothing was updated
};

// Used by one thread.
class Learner {
 public:
  // On the context's device. `config` has passed check_pipeline.
  Learner(const Context& context, const config::PipelineConfig& config, const FeatureLayout& layout,
          int64_t max_rows);

  // One step: forward, backward, update. Throws when the loss is not a number, before anything is
  // updated. On a GPU it returns before the update is done.
  // `coming`, where given, is called while the forward pass runs and says which batch will be
  // learned next, null where none will be or it is not known: rows of it that are in host memory
  // may come to the GPU meanwhile.
  using ComingBatch = std::function<const ModelBatch*()>;
  StepResult step(const ModelBatch& batch, int64_t epoch, const ComingBatch& coming = nullptr);

  // What the error about a loss that is not a number recommends.
  using Advice = std::function<std::string()>;
  void set_divergence_advice(Advice advice) { advice_ = std::move(advice); }

  // Passes the metrics of an evaluation to the schedules.
  void observe(const std::string& metric, double value);

  Model& model() { return model_; }
  DenseOptimizer& dense_optimizer() { return dense_; }
  Schedule& sparse_schedule() { return *sparse_schedule_; }
  Schedule& dense_schedule() { return *dense_schedule_; }
  LossScaler& loss_scaler() { return scaler_; }
  const Context& context() const { return context_; }

  int64_t steps() const { return steps_; }  // taken so far
  void set_steps(int64_t steps) { steps_ = steps; }
  double sparse_rate(int64_t epoch) const { return sparse_schedule_->rate(steps_, epoch); }
  double dense_rate(int64_t epoch) const { return dense_schedule_->rate(steps_, epoch); }

 private:
  // What unscaling and clipping multiply all gradients with; fills result.gradient_norm.
  float clip(StepResult& result, float loss_scale);
  // Whether the step must be skipped; the loss scale of the next follows.
  bool overflowed();

  Context context_;
  config::GradClipping clipping_;
  Model model_;
  std::unique_ptr<Schedule> sparse_schedule_, dense_schedule_;
  DenseOptimizer dense_;
  SquaredNorm dense_norm_;
  LossScaler scaler_;
  Advice advice_ = [] { return "lower lr, add grad_clipping or check the raw features"; };
  int64_t steps_ = 0;
};

}  // namespace emblem
