// The step of a learner that is one of several ranks.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/bytes.h"
#include "train/learner.h"

namespace emblem {
namespace {

std::span<float> span_of(View<float> view) { return {view.data, static_cast<size_t>(view.size())}; }

}  // namespace

void Learner::run_shard(size_t shard, const ModelBatch& batch, double weight, bool looked_up,
                        const ShardRan& ran) {
  Graph& graph = model_.graph();
  const std::span<float> statistics = span_of(graph.statistics());
  std::copy(statistics_before_.begin(), statistics_before_.end(), statistics.begin());
  // The loss of a shard is the mean over its rows; its share of the mean over all is its weight.
  graph.set_loss_scale(scaler_.scale() * static_cast<float>(weight));
  const auto draw = static_cast<uint64_t>(steps_ * world_->shards + world_->first_shard()) + shard;
  if (looked_up)
    model_.forward_shard(context_, shard, batch, Phase::kTrain, draw);
  else
    model_.forward(context_, batch, Phase::kTrain, draw);
  if (ran) ran(shard);
  model_.backward(context_);
  if (max_embedding_gradient_ > 0.0f)
    model_.clip_embedding_gradients(context_, max_embedding_gradient_ * scaler_.scale());
  if (looked_up) model_.keep_embedding_gradients(context_, shard);
  const std::span<float> gradients = span_of(graph.parameter_gradients());
  float* values = shard_values_.data() + shard * (gradients.size() + statistics.size());
  values = std::copy(gradients.begin(), gradients.end(), values);
  for (const float statistic : statistics) *values++ = static_cast<float>(weight) * statistic;
  const std::vector<double> losses = graph.losses(context_);
  double* words = shard_losses_.data() + shard * (losses.size() + 2);
  *words++ = model_.loss(context_);
  words = std::copy(losses.begin(), losses.end(), words);
  *words = scaler_.active() && graph.overflowed(context_) ? 1.0 : 0.0;
}

void Learner::run_shards(std::span<const ModelBatch* const> shards, std::span<const double> weights,
                         const ShardRan& ran) {
  Graph& graph = model_.graph();
  const std::span<float> statistics = span_of(graph.statistics());
  statistics_before_.assign(statistics.begin(), statistics.end());
  const auto values = static_cast<size_t>(graph.parameters().size()) + statistics.size();
  shard_values_.assign(shards.size() * values, 0.0f);
  summed_values_.resize(values);
  shard_losses_.assign(shards.size() * (graph.loss_names().size() + 2), 0.0);
  // Rows of one shard go where the graph takes them from.
  const bool looked_up = shards.size() != 1 || shards[0] == nullptr;
  if (looked_up) model_.lookup_shards(context_, shards, Phase::kTrain);
  for (size_t s = 0; s < shards.size(); ++s)
    if (shards[s] != nullptr) run_shard(s, *shards[s], weights[s], looked_up, ran);
}

void Learner::refuse_losses_of_ranks(double loss, int64_t epoch, const std::vector<double>& losses,
                                     size_t stride) const {
  int64_t shard = 0;
  while (shard + 1 < world_->shards && std::isfinite(losses[static_cast<size_t>(shard) * stride]))
    ++shard;
  int rank = 0;
  while (world_->first_shard(rank + 1) <= shard) ++rank;
  std::string line;
  if (rank == world_->rank()) line = refusal_of(loss, epoch);
  broadcast_bytes(*world_->ranks, line, rank);
  throw CommonError(ErrorCode::kInternal, line);
}

StepResult Learner::step_of_ranks(std::span<const ModelBatch* const> shards,
                                  std::span<const int64_t> rows, int64_t epoch,
                                  const ShardRan& ran) {
  const auto total = static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  std::vector<double> weights;
  for (const int64_t each : rows) weights.push_back(static_cast<double>(each) / total);
  run_shards(shards, std::span(weights).subspan(static_cast<size_t>(world_->first_shard())), ran);

  const size_t words = model_.graph().loss_names().size() + 2;
  const std::vector<double> of_shards = world_->gather(shard_losses_, words);
  StepResult result;
  std::vector<double> losses(words, 0.0);  // as of a shard
  for (size_t s = 0; s < rows.size(); ++s)
    for (size_t i = 0; rows[s] > 0 && i < words; ++i)
      losses[i] += weights[s] * of_shards[s * words + i];
  result.loss = losses[0];
  if (has_losses_) result.losses.assign(losses.begin() + 1, losses.end() - 1);
  if (!std::isfinite(result.loss)) refuse_losses_of_ranks(result.loss, epoch, of_shards, words);

  (*dense_sum_)(shard_values_, summed_values_);
  const std::span<float> gradients = span_of(model_.graph().parameter_gradients());
  const auto end_of_gradients = summed_values_.begin() + static_cast<ptrdiff_t>(gradients.size());
  std::copy(summed_values_.begin(), end_of_gradients, gradients.begin());
  std::copy(end_of_gradients, summed_values_.end(), span_of(model_.graph().statistics()).begin());

  const float loss_scale = scaler_.scale();
  if (scaler_.active() && losses.back() > 0.0) {
    scaler_.observe_overflow();
    result.skipped = true;
    ++steps_;
    return result;
  }
  if (scaler_.active()) scaler_.observe_good_step();
  update(result, loss_scale, epoch);
  return result;
}

}  // namespace emblem
