#include "train/learner.h"

#include <algorithm>
#include <cmath>

#include "core/host_copy.h"
#include "emblem/error.h"
#include "optim/from_config.h"
#include "optim/parameter_parts.h"
#include "train/forced_overflow.h"
#include "train/rank_tables.h"
#include "train/step_slowdown.h"

namespace emblem {
namespace {

std::vector<WeightRange> weight_ranges(const Graph& graph) {
  std::vector<WeightRange> ranges;
  for (const Parameter& parameter : graph.parameter_list()) {
    if (parameter.is_weight)
      ranges.push_back({parameter.begin, parameter.begin + parameter.rows * parameter.cols});
  }
  return ranges;
}

std::vector<NamedRange> named_ranges(const Graph& graph) {
  std::vector<NamedRange> ranges;
  for (const Parameter& parameter : graph.parameter_list())
    ranges.push_back(
        {parameter.name, {parameter.begin, parameter.begin + parameter.rows * parameter.cols}});
  return ranges;
}

std::vector<std::string> names_of(const std::vector<Table*>& tables) {
  std::vector<std::string> names;
  for (const Table* table : tables) names.push_back(table->settings().name);
  return names;
}

std::vector<Learner::DensePart> make_dense_parts(const Context& context,
                                                 const config::TrainConfig& train, Graph& graph) {
  const config::DenseOptimizer& optimizer = train.dense_optimizer();
  const int64_t size = graph.parameters().size();
  const float l2 = train.regularization().weight_l2();
  const std::vector<WeightRange> weights = weight_ranges(graph);
  std::vector<Learner::DensePart> parts;
  if (optimizer.part_optimizers().empty()) {
    parts.push_back({DenseOptimizer(context, dense_optimizer_from(optimizer), size, weights, l2),
                     make_schedule(optimizer)});
    return parts;
  }
  const auto groups = group_parameters(named_ranges(graph), optimizer);
  parts.push_back(
      {DenseOptimizer(context, dense_optimizer_from(optimizer), size, weights, l2, groups[0]),
       make_schedule(optimizer)});
  for (int i = 0; i < optimizer.part_optimizers_size(); ++i) {
    const config::PartOptimizer& part = optimizer.part_optimizers(i);
    parts.push_back(
        {DenseOptimizer(context, dense_optimizer_from(part), size, weights, l2, groups[i + 1]),
         make_schedule(optimizer, part)});
  }
  return parts;
}

}  // namespace

Learner::Learner(const Context& context, const config::PipelineConfig& config,
                 const FeatureLayout& layout, int64_t max_rows, const World* world)
    : context_(context),
      world_(world),
      clipping_(config.train_config().grad_clipping()),
      model_(context, config, layout, max_rows, nullptr, ModelUse::kTraining,
             world != nullptr
                 ? rank_tables_of(context, *world,
                                  rank_exchange_of(context, *world, config.train_config()))
                 : nullptr),
      sparse_schedule_(make_schedule(config.train_config().sparse_optimizer())),
      dense_(make_dense_parts(context, config.train_config(), model_.graph())),
      accumulation_(std::max(1u, config.train_config().gradient_accumulation_steps())),
      max_embedding_gradient_(
          sparse_optimizer_from(config.train_config().sparse_optimizer()).max_gradient),
      has_losses_(model_.graph().loss_names().size() > 1),
      dense_norm_(context),
      scaler_(precision_of(context, config.train_config()), config.train_config().grad_scaler()) {
  const config::DenseOptimizer& optimizer = config.train_config().dense_optimizer();
  if (optimizer.has_ema())
    average_.emplace(context, optimizer.ema().decay(), model_.graph().parameters());
  if (accumulation_ > 1)
    accumulated_ = Buffer<float>::zeros(context, model_.graph().parameters().size());
  if (world == nullptr) return;
  if (world->plan != nullptr) check_plan(*world->plan, world->size(), names_of(model_.tables()));
  std::vector<int64_t> shards_of_rank;
  for (int rank = 0; rank < world->size(); ++rank)
    shards_of_rank.push_back(world->first_shard(rank + 1) - world->first_shard(rank));
  dense_sum_.emplace(world->device_ranks(), std::move(shards_of_rank));
}

float Learner::clip(StepResult& result, View<float> gradients, float loss_scale) {
  const float unscale = 1.0f / loss_scale;
  const std::string& type = clipping_.clipping_type();
  if (type == "none") return unscale;
  if (type == "value") {
    clip_by_value(context_, gradients, clipping_.max_gradient() * loss_scale);
    return unscale;
  }
  double squares = dense_norm_(context_, gradients);
  if (clipping_.enable_global_grad_clip())
    squares += model_.squared_embedding_gradient_norm(context_);
  result.gradient_norm = std::sqrt(squares) * unscale;
  return unscale * static_cast<float>(
                       std::min(1.0, clipping_.max_gradient() / (result.gradient_norm + 1e-6)));
}

bool Learner::overflowed() {
  return (scaler_.active() && model_.graph().overflowed(context_)) ||
         overflow_is_forced(steps_ + 1);
}

// The gradients of this batch change nothing. With accumulation those of the others in its window
// count.
void Learner::skip(StepResult& result, int64_t epoch) {
  scaler_.observe_overflow();
  result.skipped = true;
  ++skipped_steps_;
  ++steps_;
  if (accumulation_ > 1) finish_window(result, epoch);
}

StepResult Learner::step(const ModelBatch& batch, int64_t epoch, const ComingBatch& coming) {
  const StepSlowdown slowdown;
  StepResult result;
  result.sparse_rate = sparse_rate(epoch);
  result.dense_rate = dense_rate(epoch);
  model_.graph().set_loss_scale(scaler_.scale());
  model_.forward(context_, batch, Phase::kTrain, static_cast<uint64_t>(steps_));
  if (const ModelBatch* next = coming ? coming() : nullptr) model_.prefetch(context_, *next);
  // A GPU runs the backward pass while the loss is copied to the host.
  model_.backward(context_);
  result.loss = model_.loss(context_);
  if (has_losses_) result.losses = model_.graph().losses(context_);
  if (!std::isfinite(result.loss))
    throw Error(ErrorCode::kInternal, refusal_of(result.loss, epoch));
  if (overflowed())
    skip(result, epoch);
  else
    update(result, epoch);
  return result;
}

std::string Learner::refusal_of(double loss, int64_t epoch) const {
  // The sign of a NaN has no meaning and depends on the compiler.
  const std::string text = std::isnan(loss) ? "nan" : cat(loss);
  return cat("the loss is ", text, " at step ", steps_ + 1, " (learning rates ", sparse_rate(epoch),
             " and ", dense_rate(epoch), "); ", advice_());
}

// Rows are updated with every batch, as fused optimizers of embeddings do; dense parameters with
// the sum of the gradients of accumulation_ batches.
// What may need memory comes first: a step that finds none changes nothing and can be repeated.
void Learner::update(StepResult& result, int64_t epoch) {
  const float loss_scale = scaler_.scale();
  if (max_embedding_gradient_ > 0.0f && world_ == nullptr)
    model_.clip_embedding_gradients(context_, max_embedding_gradient_ * loss_scale);
  const View<float> gradients = model_.graph().parameter_gradients();
  const float unscale = 1.0f / loss_scale;
  const auto sparse_lr = static_cast<float>(sparse_rate(epoch));
  const float scale = accumulation_ == 1 ? clip(result, gradients, loss_scale) : unscale;
  model_.update_embeddings(context_, clipping_.enable_global_grad_clip() ? scale : unscale,
                           sparse_lr, steps_ + 1);
  ++steps_;
  scaler_.observe_good_step();
  if (accumulation_ == 1) return update_dense(gradients, scale, epoch);
  add_scaled(context_, gradients, unscale, accumulated_.view());
  window_has_gradients_ = true;
  finish_window(result, epoch);
}

// At the last of accumulation_ batches: updates dense parameters, unless all of them overflowed.
void Learner::finish_window(StepResult& result, int64_t epoch) {
  if (steps_ % accumulation_ != 0 || !window_has_gradients_) return;
  const float scale = clip(result, accumulated_.view(), 1.0f);
  update_dense(accumulated_.view(), scale, epoch);
  detail::zero(context_, accumulated_.data(), accumulated_.size() * sizeof(float));
  window_has_gradients_ = false;
}

void Learner::restore_accumulated(const std::vector<float>& sum) {
  to_device(context_, sum, accumulated_.view());
  window_has_gradients_ =
      std::any_of(sum.begin(), sum.end(), [](float value) { return value != 0.0f; });
}

void Learner::update_dense(View<float> gradients, float scale, int64_t epoch) {
  const View<float> parameters = model_.graph().parameters();
  model_.stage_clock().begin(context_, "dense update");
  for (DensePart& part : dense_) {
    // The schedule counts steps before this one.
    const auto rate = static_cast<float>(part.schedule->rate(steps_ - 1, epoch));
    part.optimizer.update(context_, parameters, gradients, scale, rate, steps_ / accumulation_);
  }
  if (average_) average_->update(context_, parameters);
  model_.stage_clock().end(context_, model_.stages().dense_update);
}

void Learner::observe(const std::string& metric, double value) {
  sparse_schedule_->observe(metric, value);
  for (DensePart& part : dense_) part.schedule->observe(metric, value);
}

}  // namespace emblem
