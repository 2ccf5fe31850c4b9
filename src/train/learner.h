// train/learner.h - a model with its optimizers: everything that changes when a batch is learned.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "model/model.h"
#include "optim/dense_optimizer.h"
#include "optim/schedule.h"
#include "train/loss_scaler.h"

namespace emblem {

struct StepResult {
  double loss = 0.0;
  std::vector<double> losses;  // its summands, by Graph::loss_names(); empty where there is one
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

  // An optimizer of dense parameters with its learning rate.
  struct DensePart {
    DenseOptimizer optimizer;
    std::unique_ptr<Schedule> schedule;
  };

  Model& model() { return model_; }
  // The main one, then one for each of part_optimizers.
  std::vector<DensePart>& dense_parts() { return dense_; }
  DenseAverage* average() { return average_ ? &*average_ : nullptr; }  // null without ema
  // With gradient_accumulation_steps: the sum since the last update of dense parameters. Empty
  // without.
  View<float> accumulated() { return accumulated_.view(); }
  bool accumulates_now() const { return steps_ % accumulation_ != 0; }  // it is not all zero
  Schedule& sparse_schedule() { return *sparse_schedule_; }
  LossScaler& loss_scaler() { return scaler_; }
  const Context& context() const { return context_; }

  int64_t steps() const { return steps_; }  // taken so far
  void set_steps(int64_t steps) { steps_ = steps; }
  double sparse_rate(int64_t epoch) const { return sparse_schedule_->rate(steps_, epoch); }
  double dense_rate(int64_t epoch) const { return dense_[0].schedule->rate(steps_, epoch); }

 private:
  // What unscaling and clipping multiply the gradients with; fills result.gradient_norm.
  float clip(StepResult& result, View<float> gradients, float loss_scale);
  void update(StepResult& result, float loss_scale, int64_t epoch);
  void update_dense(View<float> gradients, float scale, int64_t epoch);
  // Whether the step must be skipped; the loss scale of the next follows.
  bool overflowed();

  Context context_;
  config::GradClipping clipping_;
  Model model_;
  std::unique_ptr<Schedule> sparse_schedule_;
  std::vector<DensePart> dense_;
  std::optional<DenseAverage> average_;
  int64_t accumulation_ = 1;  // batches to an update of dense parameters
  Buffer<float> accumulated_;
  float max_embedding_gradient_ = 0.0f;  // 0: no limit
  bool has_losses_ = false;              // more than one
  SquaredNorm dense_norm_;
  LossScaler scaler_;
  Advice advice_ = [] { return "lower lr, add grad_clipping or check the raw features"; };
  int64_t steps_ = 0;
};

}  // namespace emblem
