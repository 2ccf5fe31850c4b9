// train/run/shard_sums.h - dense gradients and statistics of a step: kept by shard, summed over
// all.
#pragma once

#include "nn/graph.h"
#include "shard/dense_sum.h"
#include "train/run/world.h"

namespace emblem {

// Nothing is copied of the only shard of a world: its values are those of the graph. Used by one
// thread.
class ShardSums {
 public:
  // The graph must outlive this.
  ShardSums(const World& world, Graph& graph);

  // Called before the shards of a step.
  void begin(const Context& context);
  // Called before the forward pass of a shard: its statistics begin where those of the step began.
  void begin_shard(const Context& context);
  // Called after its backward pass. `weight`: its share of the rows of all shards.
  void keep(const Context& context, size_t shard, double weight);
  // Keeps zeros for a shard without rows.
  void keep_none(const Context& context, size_t shard);
  // Gradients and statistics of the graph become those of all shards. Collective.
  void sum(const Context& context);

 private:
  View<float> gradients_of(const Context& context, size_t shard);

  Graph& graph_;
  const int64_t own_shards_;
  const bool is_only_shard_;
  DenseSum sum_;
  Buffer<float> statistics_before_;
  Buffer<float> gradients_;  // by shard, where this rank has several
  Buffer<float> statistics_;
};

}  // namespace emblem
