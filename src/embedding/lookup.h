// embedding/lookup.h - keys in, pooled rows out, gradients back: the interface between models and
// embedding tables. Implemented for tables in host memory, on a GPU, and served in tiers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/device/context.h"
#include "core/device/phase.h"
#include "core/math/exact_sum.h"
#include "core/memory/any_view.h"
#include "embedding/table.h"

namespace emblem {

// The keys of one feature for a batch. Bag b holds keys[offsets[b], offsets[b + 1]), or only
// keys[b] when `offsets` is empty. `weights` is empty (all 1) or has one entry per key.
struct FeatureKeys {
  View<const int64_t> keys;
  View<const int32_t> offsets;
  View<const float> weights;
  // For keys that stand for several equal ones, which were looked up elsewhere: how many, for
  // admission and LFU scores. Empty: each for itself.
  View<const int32_t> counts;
  // Where it is not empty: becomes 1 for keys without a row, else 0.
  View<uint8_t> absent;
  // With LookupSettings::placed: of each key, where its row and its gradient begin, in elements
  // from the begin of the output and of the gradients. May be outside of them, also before them, in
  // other memory of the GPU.
  View<const int64_t> places;
};

inline int64_t bags_of(const FeatureKeys& keys) {
  return keys.offsets.size() > 0 ? keys.offsets.size() - 1 : keys.keys.size();
}

// The scalars of a training step.
struct StepScalars {
  float scale = 1.0f;  // factor of the gradients
  float learning_rate = 0.0f;
  int64_t step = 1;  // counts from 1
};

// Counts of one feature: values that were looked up, and those of them that found no row. In
// evaluation these are keys that a dynamic table does not have; in training, keys that were not
// admitted. A static table (num_buckets, hash_bucket_size) has a row for every key, initialized
// where training never saw the key: none is missing there.
struct LookupCounts {
  int64_t values = 0, missing = 0;
  bool operator==(const LookupCounts&) const = default;
};

class Lookup {
 public:
  virtual ~Lookup() = default;

  // Floats of one output row: the dims of all features, in order.
  virtual int64_t width() const = 0;

  // out[b] = the pooled rows of bag b of every feature, concatenated. out is [bags, width()], in 16
  // bits only on a GPU. In training, new keys get rows. The keys must stay valid until backward
  // returns.
  virtual void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
                       AnyView out) = 0;

  // Announces the keys of the next training forward, so that their rows are transferred while other
  // work runs: for tables in host memory with a cache on the GPU (Placement::kCache, kHost), the
  // rows that the next batch needs and that the current step does not use are copied into the
  // cache. Otherwise it does nothing. No result depends on it, even if another batch follows. Best
  // called between forward and backward of a step, with the keys of the next step. The keys must
  // stay valid until the next backward or forward has run, and, to be captured in a CUDA graph, one
  // of these must be in the same graph.
  virtual void prefetch(const Context&, std::span<const FeatureKeys>) {}

  // Gets the gradients of the backward that will follow, and of no other: does what needs no
  // other rank, so that work can be enqueued between it and what does. Optional.
  virtual void prepare_backward(const Context&, ConstAnyView) {}

  // The squared norm of the gradients with respect to the rows (duplicates of a key summed) for the
  // keys of the last training forward. gradients is [bags, width()].
  virtual double squared_gradient_norm(const Context& context, ConstAnyView gradients) = 0;

  // The same, added to a sum that does not depend on the order of rows or the rank that has them.
  virtual void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                         ExactSum& sum);

  // Sums `scale * gradients` per key and updates each row of the last training forward once. `step`
  // counts from 1. Gradients may be of another type than the output.
  virtual void backward(const Context& context, ConstAnyView gradients, float scale,
                        float learning_rate, int64_t step) = 0;

  // The same in two parts, for steps that are captured in a CUDA graph and replayed: set_step is
  // called outside of the graph, before each replay, and backward_as_set reads the scalars of the
  // last set_step when it runs. On a GPU both are ordered with the stream.
  virtual void set_step(const Context&, const StepScalars& scalars) { step_ = scalars; }
  virtual void backward_as_set(const Context& context, ConstAnyView gradients) {
    backward(context, gradients, step_.scale, step_.learning_rate, step_.step);
  }

  // Waits for the passes on a GPU and throws their errors.
  virtual void check(const Context&) {}

  // What all forward passes, replayed ones included, looked up since the last call: one entry per
  // feature, in their order. On a GPU it waits for the passes; it cannot be captured.
  virtual std::vector<LookupCounts> take_counts(const Context& context) = 0;

 private:
  StepScalars step_;
};

// One column block of the output. Several features may name the same table: a key's gradients are
// then summed over all of them, in the order of (feature, bag, position), before its row is updated
// once.
struct LookupFeature {
  Table* table = nullptr;  // borrowed; outlives the lookup, and only this lookup trains it
  Pooling pooling = Pooling::kSum;
};

// Throws when the keys of a batch do not fit the features (over `tables`) or the output.
void check_batch(std::span<const FeatureKeys> features, std::span<Table* const> tables,
                 int64_t width, AnyView out);
// The same for a lookup with LookupSettings::placed.
void check_placed_batch(std::span<const FeatureKeys> features, std::span<Table* const> tables,
                        AnyView out);

// A lookup on the context's device, where the tables must be too.
std::unique_ptr<Lookup> make_lookup(const Context& context, std::span<const LookupFeature> features,
                                    const LookupSettings& settings = {});

}  // namespace emblem
