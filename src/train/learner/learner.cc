#include "train/learner/learner.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>

#include "comm/bytes.h"
#include "config/feature/tree_items.h"
#include "core/memory/host_copy.h"
#include "emblem/error.h"
#include "optim/from_config.h"
#include "optim/parameter_parts.h"
#include "train/report/step_slowdown.h"
#include "train/run/rank_tables.h"

namespace emblem {
namespace {

#if defined(EMBLEM_TEST_HOOKS)
// Whether gradients overflow at this step, counted from 1, on every device and in every precision:
// EMBLEM_TEST_OVERFLOW_STEPS is a list of steps ("4,8") or "all".
bool overflow_is_forced(int64_t step) {
  const char* steps = std::getenv("EMBLEM_TEST_OVERFLOW_STEPS");
  if (steps == nullptr) return false;
  const std::string list = std::string(",") + steps + ",";
  return list == ",all," || list.find("," + std::to_string(step) + ",") != std::string::npos;
}
#else
constexpr bool overflow_is_forced(int64_t) { return false; }
#endif

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
                 const FeatureLayout& layout, int64_t max_rows, const World& world)
    : context_(context),
      world_(world),
      clipping_(config.train_config().grad_clipping()),
      model_(
          context, config, layout, rows_with_samples(config.data_config(), max_rows), nullptr,
          ModelUse::kTraining,
          rank_tables_of(context, world, rank_exchange_of(context, world, config.train_config()))),
      sparse_schedule_(make_schedule(config.train_config().sparse_optimizer())),
      dense_(make_dense_parts(context, config.train_config(), model_.graph())),
      accumulation_(std::max(1u, config.train_config().gradient_accumulation_steps())),
      max_embedding_gradient_(
          sparse_optimizer_from(config.train_config().sparse_optimizer()).max_gradient),
      has_losses_(model_.graph().loss_names().size() > 1),
      dense_norm_(context),
      scaler_(precision_of(context, config.train_config()), config.train_config().grad_scaler()),
      sums_(world, model_.graph()) {
  const config::DenseOptimizer& optimizer = config.train_config().dense_optimizer();
  if (optimizer.has_ema())
    average_.emplace(context, optimizer.ema().decay(), model_.graph().parameters());
  if (accumulation_ > 1)
    accumulated_ = Buffer<float>::zeros(context, model_.graph().parameters().size());
  if (world.plan != nullptr) check_plan(*world.plan, world.size(), names_of(model_.tables()));
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

void Learner::run_shard(size_t shard, const ModelBatch& batch, double weight, const ShardRan& ran,
                        const ComingShards& coming) {
  sums_.begin_shard(context_);
  // The loss of a shard is the mean over its rows; its share of the mean over all is its weight.
  model_.graph().set_loss_scale(scaler_.scale() * static_cast<float>(weight));
  const auto draw = static_cast<uint64_t>(steps_ * world_.shards + world_.first_shard()) + shard;
  model_.forward_shard(context_, shard, batch, Phase::kTrain, draw);
  if (coming) model_.prefetch(context_, coming());
  if (ran) ran(shard);
  // A GPU runs the backward pass while the loss is copied to the host.
  model_.backward(context_);
  if (max_embedding_gradient_ > 0.0f)
    model_.clip_embedding_gradients(context_, max_embedding_gradient_ * scaler_.scale());
  model_.keep_embedding_gradients(context_, shard);
  sums_.keep(context_, shard, weight);
  double* values = shard_losses_.data() + shard * shard_values();
  *values++ = model_.loss(context_);
  if (has_losses_) {
    const std::vector<double> losses = model_.losses(context_);
    values = std::copy(losses.begin(), losses.end(), values);
  }
  *values = overflowed() ? 1.0 : 0.0;
}

void Learner::run_shards(std::span<const ModelBatch* const> shards, std::span<const double> weights,
                         const ShardRan& ran, const ComingShards& coming) {
  sums_.begin(context_);
  shard_losses_.assign(shards.size() * shard_values(), 0.0);
  model_.lookup_shards(context_, shards, Phase::kTrain);
  for (size_t s = 0; s < shards.size(); ++s) {
    const bool last = s + 1 == shards.size();
    if (shards[s] != nullptr)
      run_shard(s, *shards[s], weights[s], ran, last ? coming : nullptr);
    else
      sums_.keep_none(context_, s);
  }
}

StepResult Learner::step(std::span<const ModelBatch* const> shards, std::span<const int64_t> rows,
                         int64_t epoch, const ShardRan& ran, const ComingShards& coming) {
  const StepSlowdown slowdown;
  const auto total = static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  std::vector<double> weights;
  for (const int64_t each : rows) weights.push_back(static_cast<double>(each) / total);
  run_shards(shards, std::span(weights).subspan(static_cast<size_t>(world_.first_shard())), ran,
             coming);

  const size_t values = shard_values();
  const std::vector<double> of_shards = world_.gather(shard_losses_, values);
  StepResult result;
  result.sparse_rate = sparse_rate(epoch);
  result.dense_rate = dense_rate(epoch);
  std::vector<double> losses(values, 0.0);  // as of a shard
  for (size_t s = 0; s < rows.size(); ++s)
    for (size_t i = 0; rows[s] > 0 && i < values; ++i)
      losses[i] += weights[s] * of_shards[s * values + i];
  result.loss = losses[0];
  if (has_losses_) result.losses.assign(losses.begin() + 1, losses.end() - 1);
  if (!std::isfinite(result.loss)) refuse_loss(result.loss, epoch, of_shards, values);

  sums_.sum(context_);
  if (losses.back() > 0.0)
    skip(result, epoch);
  else
    update(result, epoch);
  return result;
}

void Learner::refuse_loss(double loss, int64_t epoch, const std::vector<double>& losses,
                          size_t stride) const {
  int64_t shard = 0;
  while (shard + 1 < world_.shards && std::isfinite(losses[static_cast<size_t>(shard) * stride]))
    ++shard;
  const int rank = world_.rank_of(shard);
  std::string line;
  if (rank == world_.rank()) {
    // The sign of a NaN has no meaning and depends on the compiler.
    const std::string text = std::isnan(loss) ? "nan" : cat(loss);
    line = cat("the loss is ", text, " at step ", steps_ + 1, " (learning rates ",
               sparse_rate(epoch), " and ", dense_rate(epoch), "); ", advice_());
  }
  broadcast_bytes(*world_.ranks, line, rank);
  throw CommonError(ErrorCode::kInternal, line);
}

// Rows are updated with every batch, as fused optimizers of embeddings do; dense parameters with
// the sum of the gradients of accumulation_ batches.
// What may need memory comes first: a step that finds none changes nothing and can be repeated.
void Learner::update(StepResult& result, int64_t epoch) {
  const float loss_scale = scaler_.scale();
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

// Called at the last of accumulation_ batches: updates dense parameters, unless all of them
// overflowed.
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
