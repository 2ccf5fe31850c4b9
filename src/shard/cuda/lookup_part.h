// shard/cuda/lookup_part.h - a part of a sharded lookup on GPUs: some tables and their features.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/math/exact_sum.h"
#include "embedding/lookup.h"

namespace emblem::cuda {

// A feature over a table, or a slice of one, of the part.
struct PartFeature {
  size_t table = 0;
  Pooling pooling = Pooling::kSum;
  int64_t column = 0;  // column of the output of the whole lookup
};

// As a Lookup, but that it reads and writes the columns of its own features in outputs and
// gradients of the whole lookup. Arguments have been checked. All ranks call the functions of the
// same parts in the same order.
class LookupPart {
 public:
  virtual ~LookupPart() = default;

  // Keys are those of shards, shard after shard, each with all features.
  virtual void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
                       AnyView out) = 0;
  virtual void prefetch(const Context&, std::span<const FeatureKeys>) {}
  virtual void prepare_backward(const Context&, ConstAnyView) {}
  // Adds the norm of the rows of this rank.
  virtual void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                         ExactSum& sum) = 0;
  virtual void backward(const Context& context, ConstAnyView gradients,
                        const StepScalars& scalars) = 0;
  virtual void check(const Context& context) = 0;
  // Counts by feature: values without a row since the last call, counted by this rank. All
  // ranks together have counted each value once.
  virtual std::vector<int64_t> take_missing(const Context& context) = 0;
};

}  // namespace emblem::cuda
