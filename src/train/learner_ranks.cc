// The step of a learner that is one of several ranks.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "comm/bytes.h"
#include "train/learner.h"

namespace emblem {
namespace {

void copy(const Context& context, View<const float> from, float* to) {
  detail::copy(context, to, from.data, static_cast<size_t>(from.size()) * sizeof(float));
}

void zero(const Context& context, View<float> values) {
  detail::zero(context, values.data, static_cast<size_t>(values.size()) * sizeof(float));
}

}  // namespace

void Learner::run_shard(size_t shard, const ModelBatch& batch, double weight, bool looked_up,
                        const ShardRan& ran, const ComingShards& coming) {
  Graph& graph = model_.graph();
  copy(context_, statistics_before_.view(), graph.statistics().data);
  // The loss of a shard is the mean over its rows; its share of the mean over all is its weight.
  graph.set_loss_scale(scaler_.scale() * static_cast<float>(weight));
  const auto draw = static_cast<uint64_t>(steps_ * world_->shards + world_->first_shard()) + shard;
  if (looked_up)
    model_.forward_shard(context_, shard, batch, Phase::kTrain, draw);
  else
    model_.forward(context_, batch, Phase::kTrain, draw);
  if (coming) model_.prefetch_shards(context_, coming());
  if (ran) ran(shard);
  model_.backward(context_);
  if (max_embedding_gradient_ > 0.0f)
    model_.clip_embedding_gradients(context_, max_embedding_gradient_ * scaler_.scale());
  if (looked_up)
    model_.keep_embedding_gradients(context_, shard);
  else
    model_.prepare_update(context_);
  keep_values(shard, weight);
  const std::vector<double> losses = graph.losses(context_);
  double* words = shard_losses_.data() + shard * (losses.size() + 2);
  *words++ = model_.loss(context_);
  words = std::copy(losses.begin(), losses.end(), words);
  *words = overflowed() ? 1.0 : 0.0;
}

// What is summed over the shards. The gradients of one shard stay in the graph.
void Learner::begin_values() {
  const View<float> statistics = model_.graph().statistics();
  const int64_t shards = world_->own_shards();
  if (statistics_before_.size() != statistics.size()) {
    shard_statistics_ = Buffer<float>(context_.device, shards, statistics.size());
    statistics_before_ = Buffer<float>(context_.device, statistics.size());
  }
  const int64_t parameters = model_.graph().parameters().size();
  if (shards > 1 && shard_gradients_.size() == 0)
    shard_gradients_ = Buffer<float>(context_.device, shards, parameters);
  copy(context_, statistics, statistics_before_.data());
  zero(context_, shard_statistics_.view());
}

void Learner::keep_values(size_t shard, double weight) {
  const View<float> gradients = model_.graph().parameter_gradients();
  const View<float> statistics = model_.graph().statistics();
  const auto number = static_cast<int64_t>(shard);
  if (shard_gradients_.size() > 0)
    copy(context_, gradients, shard_gradients_.data() + number * gradients.size());
  add_scaled(context_, statistics, static_cast<float>(weight),
             {shard_statistics_.data() + number * statistics.size(), statistics.size(), 1,
              context_.device});
}

// Of a shard without rows.
void Learner::keep_no_values(size_t shard) {
  const View<float> gradients = model_.graph().parameter_gradients();
  const auto number = static_cast<int64_t>(shard);
  zero(context_, shard_gradients_.size() > 0
                     ? View<float>{shard_gradients_.data() + number * gradients.size(),
                                   gradients.size(), 1, context_.device}
                     : gradients);
}

void Learner::run_shards(std::span<const ModelBatch* const> shards, std::span<const double> weights,
                         const ShardRan& ran, const ComingShards& coming) {
  Graph& graph = model_.graph();
  begin_values();
  shard_losses_.assign(shards.size() * (graph.loss_names().size() + 2), 0.0);
  // Rows of one shard go where the graph takes them from.
  const bool looked_up = shards.size() != 1 || shards[0] == nullptr;
  if (looked_up) model_.lookup_shards(context_, shards, Phase::kTrain);
  for (size_t s = 0; s < shards.size(); ++s) {
    const bool last = s + 1 == shards.size();
    if (shards[s] != nullptr)
      run_shard(s, *shards[s], weights[s], looked_up, ran, last ? coming : nullptr);
    else
      keep_no_values(s);
  }
}

void Learner::refuse_losses_of_ranks(double loss, int64_t epoch, const std::vector<double>& losses,
                                     size_t stride) const {
  int64_t shard = 0;
  while (shard + 1 < world_->shards && std::isfinite(losses[static_cast<size_t>(shard) * stride]))
    ++shard;
  const int rank = world_->rank_of(shard);
  std::string line;
  if (rank == world_->rank()) line = refusal_of(loss, epoch);
  broadcast_bytes(*world_->ranks, line, rank);
  throw CommonError(ErrorCode::kInternal, line);
}

StepResult Learner::step_of_ranks(std::span<const ModelBatch* const> shards,
                                  std::span<const int64_t> rows, int64_t epoch, const ShardRan& ran,
                                  const ComingShards& coming) {
  const auto total = static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  std::vector<double> weights;
  for (const int64_t each : rows) weights.push_back(static_cast<double>(each) / total);
  run_shards(shards, std::span(weights).subspan(static_cast<size_t>(world_->first_shard())), ran,
             coming);

  const size_t words = model_.graph().loss_names().size() + 2;
  const std::vector<double> of_shards = world_->gather(shard_losses_, words);
  StepResult result;
  result.sparse_rate = sparse_rate(epoch);
  result.dense_rate = dense_rate(epoch);
  std::vector<double> losses(words, 0.0);  // as of a shard
  for (size_t s = 0; s < rows.size(); ++s)
    for (size_t i = 0; rows[s] > 0 && i < words; ++i)
      losses[i] += weights[s] * of_shards[s * words + i];
  result.loss = losses[0];
  if (has_losses_) result.losses.assign(losses.begin() + 1, losses.end() - 1);
  if (!std::isfinite(result.loss)) refuse_losses_of_ranks(result.loss, epoch, of_shards, words);

  sum_values();
  if (losses.back() > 0.0)
    skip(result, epoch);
  else
    update(result, epoch);
  return result;
}

// Gradients and statistics become those of all shards.
void Learner::sum_values() {
  const View<float> gradients = model_.graph().parameter_gradients();
  const View<float> statistics = model_.graph().statistics();
  const View<float> parts = shard_gradients_.size() > 0 ? shard_gradients_.view() : gradients;
  (*dense_sum_)(context_, {parts.data, parts.size(), 1, context_.device}, gradients);
  if (statistics.size() > 0)
    (*dense_sum_)(context_, std::as_const(shard_statistics_).view(), statistics);
}

}  // namespace emblem
