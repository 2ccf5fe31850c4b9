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
#include "shard/dense_sum.h"
#include "train/loss_scaler.h"
#include "train/world.h"

namespace emblem {

struct StepResult {
  double loss = 0.0;
  std::vector<double> losses;  // its summands, by Graph::loss_names(); empty where there is one
  double gradient_norm = 0.0;  // 0 unless gradients are clipped by norm
  bool skipped = false;        // fp16 gradients overflowed: they were dropped
  double sparse_rate = 0.0, dense_rate = 0.0;  // learning rates, of the main dense optimizer
};

// Used by one thread.
class Learner {
 public:
  // On the context's device. `config` has passed check_pipeline. With `world`, which outlives it,
  // the learner is that of one rank: it has a part of the tables, and learns with step_of_ranks.
  Learner(const Context& context, const config::PipelineConfig& config, const FeatureLayout& layout,
          int64_t max_rows, const World* world = nullptr);

  // One step: forward, backward, update. Throws when the loss is not a number, before anything is
  // updated. On a GPU it returns before the update is done.
  // `coming`, where given, is called while the forward pass runs and says which batch will be
  // learned next, null where none will be or it is not known: rows of it that are in host memory
  // may come to the GPU meanwhile.
  using ComingBatch = std::function<const ModelBatch*()>;
  StepResult step(const ModelBatch& batch, int64_t epoch, const ComingBatch& coming = nullptr);

  // One step of all ranks, which call it together. `shards` are those of this rank; null: without
  // rows. `rows` has the number of rows of every shard of all ranks; there are some. `ran`, where
  // given, is called after the forward pass of a shard. The result is that of all shards.
  // `coming`, where given, says which batches of this rank's shards will be next, as for step().
  using ShardRan = std::function<void(size_t shard)>;
  using ComingShards = std::function<std::vector<const ModelBatch*>()>;
  StepResult step_of_ranks(std::span<const ModelBatch* const> shards, std::span<const int64_t> rows,
                           int64_t epoch, const ShardRan& ran = nullptr,
                           const ComingShards& coming = nullptr);
  const World* world() const { return world_; }

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
  void restore_accumulated(const std::vector<float>& sum);              // of a checkpoint
  bool accumulates_now() const { return steps_ % accumulation_ != 0; }  // else it is all zero
  Schedule& sparse_schedule() { return *sparse_schedule_; }
  LossScaler& loss_scaler() { return scaler_; }
  const LossScaler& loss_scaler() const { return scaler_; }
  const Context& context() const { return context_; }

  int64_t steps() const { return steps_; }  // taken so far
  // Of those that this object took: whose gradients overflowed.
  int64_t skipped_steps() const { return skipped_steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  // Of this rank's shards: the gradients and statistics of each, its losses and whether they are
  // finite.
  void run_shards(std::span<const ModelBatch* const> shards, std::span<const double> weights,
                  const ShardRan& ran, const ComingShards& coming);
  void run_shard(size_t shard, const ModelBatch& batch, double weight, bool looked_up,
                 const ShardRan& ran, const ComingShards& coming);
  void begin_values();
  void keep_values(size_t shard, double weight);
  void keep_no_values(size_t shard);
  void sum_values();
  // The learning rates of the step that comes next.
  double sparse_rate(int64_t epoch) const { return sparse_schedule_->rate(steps_, epoch); }
  double dense_rate(int64_t epoch) const { return dense_[0].schedule->rate(steps_, epoch); }
  // Why training does not go on.
  std::string refusal_of(double loss, int64_t epoch) const;
  // On all ranks, with what the one says whose shard has it. `losses`: by shard, `stride` apart.
  [[noreturn]] void refuse_losses_of_ranks(double loss, int64_t epoch,
                                           const std::vector<double>& losses, size_t stride) const;
  // What unscaling and clipping multiply the gradients with; fills result.gradient_norm.
  float clip(StepResult& result, View<float> gradients, float loss_scale);
  void update(StepResult& result, int64_t epoch);
  void skip(StepResult& result, int64_t epoch);
  void finish_window(StepResult& result, int64_t epoch);
  void update_dense(View<float> gradients, float scale, int64_t epoch);
  bool overflowed();  // the gradients of the last backward pass

  Context context_;
  const World* world_;
  config::GradClipping clipping_;
  Model model_;
  std::unique_ptr<Schedule> sparse_schedule_;
  std::vector<DensePart> dense_;
  std::optional<DenseAverage> average_;
  int64_t accumulation_ = 1;  // batches to an update of dense parameters
  Buffer<float> accumulated_;
  bool window_has_gradients_ = false;    // accumulated_ has the sum of at least one batch
  float max_embedding_gradient_ = 0.0f;  // 0: no limit
  bool has_losses_ = false;              // more than one
  SquaredNorm dense_norm_;
  LossScaler scaler_;
  Advice advice_ = [] { return "lower lr, add grad_clipping or check the raw features"; };
  int64_t steps_ = 0, skipped_steps_ = 0;

  // Of a rank.
  std::optional<DenseSum> dense_sum_;
  Buffer<float> statistics_before_;
  Buffer<float> shard_gradients_;  // of several shards
  Buffer<float> shard_statistics_;
  std::vector<double> shard_losses_;  // per shard: the loss, its summands, overflow
};

}  // namespace emblem
