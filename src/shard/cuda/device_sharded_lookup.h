// shard/cuda/device_sharded_lookup.h - a sharded lookup over tables on GPUs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shard/cuda/lookup_part.h"
#include "shard/sharded_lookup.h"

namespace emblem::cuda {

// Tables whose bags are pooled where they are needed (requester_pooled.h), and those whose bags
// are pooled where the rows are (owner_pooled.h). Used by one thread.
class DeviceShardedLookup : public Lookup {
 public:
  DeviceShardedLookup(const Context& context, std::span<const ShardedTable> tables,
                      std::span<const ShardedFeature> features, const ShardRanks& ranks,
                      const LookupSettings& settings);

  int64_t width() const override { return width_; }
  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  void prefetch(const Context& context, std::span<const FeatureKeys> features) override;
  void prepare_backward(const Context& context, ConstAnyView gradients) override;
  double squared_gradient_norm(const Context& context, ConstAnyView gradients) override;
  // Adds the norm of the rows of this rank.
  void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                 ExactSum& sum) override;
  void backward(const Context& context, ConstAnyView gradients, float scale, float learning_rate,
                int64_t step) override;
  void check(const Context& context) override;
  std::vector<LookupCounts> take_counts(const Context& context) override;

 private:
  struct Source {  // source of the keys of a part's feature
    size_t feature = 0;
    bool counts_missing = true;  // one slice of a table does
  };
  struct Part {
    std::unique_ptr<LookupPart> lookup;
    std::vector<Source> sources;  // by feature of the part
    std::vector<FeatureKeys> keys;
  };
  struct Parts;

  void check_shards(std::span<const FeatureKeys> features) const;
  void check_gradients(ConstAnyView gradients) const;
  int64_t take_bags(std::span<const FeatureKeys> features);
  // The keys of a part's features, shard after shard.
  void take_keys(std::span<const FeatureKeys> features, Part& part) const;

  ShardRanks ranks_;
  std::vector<Part> parts_;
  int64_t width_ = 0;
  int64_t bags_ = 0;  // bags of the last pass
  Phase phase_ = Phase::kEval;
  std::vector<LookupCounts> counts_;  // without what parts have counted
};

std::unique_ptr<Lookup> make_sharded_lookup(const Context& context,
                                            std::span<const ShardedTable> tables,
                                            std::span<const ShardedFeature> features,
                                            const ShardRanks& ranks,
                                            const LookupSettings& settings);

}  // namespace emblem::cuda
