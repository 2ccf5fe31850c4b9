#include "train/run/shard_sums.h"

#include <utility>
#include <vector>

#include "optim/dense_optimizer.h"

namespace emblem {
namespace {

void copy_floats(const Context& context, View<const float> from, float* to) {
  detail::copy(context, to, from.data, static_cast<size_t>(from.size()) * sizeof(float));
}

void zero_floats(const Context& context, View<float> values) {
  detail::zero(context, values.data, static_cast<size_t>(values.size()) * sizeof(float));
}

std::vector<int64_t> shards_of_ranks(const World& world) {
  std::vector<int64_t> shards;
  for (int rank = 0; rank < world.size(); ++rank)
    shards.push_back(world.first_shard(rank + 1) - world.first_shard(rank));
  return shards;
}

}  // namespace

ShardSums::ShardSums(const World& world, Graph& graph)
    : graph_(graph),
      own_shards_(world.own_shards()),
      is_only_shard_(world.shards == 1),
      sum_(world.device_ranks(), shards_of_ranks(world)) {}

void ShardSums::begin(const Context& context) {
  if (is_only_shard_) return;
  const View<float> statistics = graph_.statistics();
  if (statistics_before_.size() != statistics.size()) {
    statistics_ = Buffer<float>(context.device, own_shards_, statistics.size());
    statistics_before_ = Buffer<float>(context.device, statistics.size());
  }
  if (own_shards_ > 1 && gradients_.size() == 0)
    gradients_ = Buffer<float>(context.device, own_shards_, graph_.parameters().size());
  copy_floats(context, statistics, statistics_before_.data());
  zero_floats(context, statistics_.view());
}

void ShardSums::begin_shard(const Context& context) {
  if (!is_only_shard_) copy_floats(context, statistics_before_.view(), graph_.statistics().data);
}

// The gradients of a rank's only shard stay in the graph.
View<float> ShardSums::gradients_of(const Context& context, size_t shard) {
  const View<float> gradients = graph_.parameter_gradients();
  if (gradients_.size() == 0) return gradients;
  return {gradients_.data() + static_cast<int64_t>(shard) * gradients.size(), gradients.size(), 1,
          context.device};
}

void ShardSums::keep(const Context& context, size_t shard, double weight) {
  if (is_only_shard_) return;
  const View<float> gradients = graph_.parameter_gradients();
  const View<float> kept = gradients_of(context, shard);
  if (kept.data != gradients.data) copy_floats(context, gradients, kept.data);
  const View<float> statistics = graph_.statistics();
  add_scaled(context, statistics, static_cast<float>(weight),
             {statistics_.data() + static_cast<int64_t>(shard) * statistics.size(),
              statistics.size(), 1, context.device});
}

void ShardSums::keep_none(const Context& context, size_t shard) {
  zero_floats(context, gradients_of(context, shard));
}

void ShardSums::sum(const Context& context) {
  const View<float> gradients = graph_.parameter_gradients();
  const View<float> parts = gradients_.size() > 0 ? gradients_.view() : gradients;
  sum_(context, {parts.data, parts.size(), 1, context.device}, gradients);
  if (!is_only_shard_ && graph_.statistics().size() > 0)
    sum_(context, std::as_const(statistics_).view(), graph_.statistics());
}

}  // namespace emblem
