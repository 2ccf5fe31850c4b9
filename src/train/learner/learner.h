// train/learner/learner.h - a model with its optimizers: everything that changes when a batch is
// learned.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "model/model.h"
#include "optim/dense_optimizer.h"
#include "optim/schedule.h"
#include "train/learner/loss_scaler.h"
#include "train/run/shard_sums.h"
#include "train/run/world.h"

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
  // A learner on the context's device. `config` has passed check_pipeline. The learner is that of
  // one rank of `world`: it has a part of the tables. `max_rows`: of a batch before rows are sampled
  // for it (config/feature/tree_items.h).
  Learner(const Context& context, const config::PipelineConfig& config, const FeatureLayout& layout,
          int64_t max_rows, const World& world = World::alone());
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  // One step of all ranks, which call it together: forward, backward, update. `shards` are those of
  // this rank; null: without rows. `rows` has the number of rows of every shard of all ranks; there
  // are some. The result is that of all shards. Throws on all ranks when the loss is not a number,
  // before anything is updated. On a GPU it returns before the update is done.
  // `ran`, where given, is called after the forward pass of a shard. `coming`, where given, is
  // called while the last forward pass runs and says which batches of this rank's shards will be
  // learned next, null where none will be or it is not known: rows of them that are in host memory
  // may come to the GPU meanwhile.
  using ShardRan = std::function<void(size_t shard)>;
  using ComingShards = std::function<std::vector<const ModelBatch*>()>;
  StepResult step(std::span<const ModelBatch* const> shards, std::span<const int64_t> rows,
                  int64_t epoch, const ShardRan& ran = nullptr,
                  const ComingShards& coming = nullptr);
  // The same of the only shard.
  StepResult step(const ModelBatch& batch, int64_t epoch, const ComingShards& coming = nullptr) {
    const ModelBatch* const shard = &batch;
    return step({&shard, 1}, {&batch.rows, 1}, epoch, nullptr, coming);
  }
  const World& world() const { return world_; }

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
  void restore_accumulated(const std::vector<float>& sum);              // sums from a checkpoint
  bool accumulates_now() const { return steps_ % accumulation_ != 0; }  // else it is all zero
  Schedule& sparse_schedule() { return *sparse_schedule_; }
  LossScaler& loss_scaler() { return scaler_; }
  const LossScaler& loss_scaler() const { return scaler_; }
  const Context& context() const { return context_; }

  int64_t steps() const { return steps_; }  // taken so far
  // Steps that this object took whose gradients overflowed.
  int64_t skipped_steps() const { return skipped_steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  // Runs this rank's shards: the gradients and statistics of each, its losses and whether they are
  // finite.
  void run_shards(std::span<const ModelBatch* const> shards, std::span<const double> weights,
                  const ShardRan& ran, const ComingShards& coming);
  void run_shard(size_t shard, const ModelBatch& batch, double weight, const ShardRan& ran,
                 const ComingShards& coming);
  // Numbers that a shard reports: its loss, the summands of it where there are several, and whether
  // its gradients overflowed.
  size_t shard_values() const { return (has_losses_ ? model_.loss_names().size() : 0) + 2; }
  // The learning rates of the step that comes next.
  double sparse_rate(int64_t epoch) const { return sparse_schedule_->rate(steps_, epoch); }
  double dense_rate(int64_t epoch) const { return dense_[0].schedule->rate(steps_, epoch); }
  // Throws on all ranks, with the advice of the one whose shard has the loss. `losses`: by shard,
  // `stride` apart.
  [[noreturn]] void refuse_loss(double loss, int64_t epoch, const std::vector<double>& losses,
                                size_t stride) const;
  // What unscaling and clipping multiply the gradients with; fills result.gradient_norm.
  float clip(StepResult& result, View<float> gradients, float loss_scale);
  void update(StepResult& result, int64_t epoch);
  void skip(StepResult& result, int64_t epoch);
  void finish_window(StepResult& result, int64_t epoch);
  void update_dense(View<float> gradients, float scale, int64_t epoch);
  bool overflowed();  // the gradients of the last backward pass

  Context context_;
  const World world_;
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

  ShardSums sums_;
  std::vector<double> shard_losses_;  // shard_values() of each own shard
};

}  // namespace emblem
