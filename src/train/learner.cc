#include "train/learner.h"

#include <cmath>

#include "emblem/error.h"
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

}  // namespace

Learner::Learner(const Context& context, const config::PipelineConfig& config,
                 const FeatureLayout& layout, int64_t max_rows)
    : context_(context),
      clipping_(config.train_config().grad_clipping()),
      model_(context, config, layout, max_rows),
      sparse_schedule_(make_schedule(config.train_config().sparse_optimizer())),
      dense_schedule_(make_schedule(config.train_config().dense_optimizer())),
      dense_(context, dense_optimizer_from(config.train_config().dense_optimizer()),
             model_.graph().parameters().size(), weight_ranges(model_.graph()),
             config.train_config().regularization().weight_l2()),
      dense_norm_(context),
      scaler_(precision_of(context, config.train_config()), config.train_config().grad_scaler()) {}

float Learner::clip(StepResult& result, float loss_scale) {
  const float unscale = 1.0f / loss_scale;
  const std::string& type = clipping_.clipping_type();
  if (type == "none") return unscale;
  const View<float> gradients = model_.graph().parameter_gradients();
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
  if (!scaler_.active()) return false;
  if (!model_.graph().overflowed(context_)) {
    scaler_.observe_good_step();
    return false;
  }
  scaler_.observe_overflow();
  return true;
}

StepResult Learner::step(const ModelBatch& batch, int64_t epoch, const ComingBatch& coming) {
  const StepSlowdown slowdown;
  StepResult result;
  model_.graph().set_loss_scale(scaler_.scale());
  model_.forward(context_, batch, Phase::kTrain, static_cast<uint64_t>(steps_));
  if (const ModelBatch* next = coming ? coming() : nullptr) model_.prefetch(context_, *next);
  // A GPU runs the backward pass while the loss is copied to the host.
  model_.backward(context_);
  result.loss = model_.loss(context_);
  if (!std::isfinite(result.loss)) {
    throw Error(ErrorCode::kInternal,
                cat("the loss is ", result.loss, " at step ", steps_ + 1, " (learning rates ",
                    sparse_rate(epoch), " and ", dense_rate(epoch), "); ", advice_()));
  }
  const float loss_scale = scaler_.scale();
  if (overflowed()) {
    result.skipped = true;
    ++steps_;
    return result;
  }
  const float scale = clip(result, loss_scale);
  const auto sparse_lr = static_cast<float>(sparse_rate(epoch));
  const auto dense_lr = static_cast<float>(dense_rate(epoch));
  ++steps_;
  model_.update_embeddings(
      context_, clipping_.enable_global_grad_clip() ? scale : 1.0f / loss_scale, sparse_lr, steps_);
  model_.stage_clock().begin(context_, "dense update");
  dense_.update(context_, model_.graph().parameters(), model_.graph().parameter_gradients(), scale,
                dense_lr, steps_);
  model_.stage_clock().end(context_, model_.stages().dense_update);
  return result;
}

void Learner::observe(const std::string& metric, double value) {
  sparse_schedule_->observe(metric, value);
  dense_schedule_->observe(metric, value);
}

}  // namespace emblem
