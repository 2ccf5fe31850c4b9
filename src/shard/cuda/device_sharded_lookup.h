// shard/cuda/device_sharded_lookup.h - a sharded lookup over tables on GPUs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "embedding/lookup.h"
#include "shard/message_layout.h"
#include "shard/sharded_lookup.h"

namespace emblem::cuda {

// Sizes of messages pass through the host: a forward pass waits for them, unless prefetch announced
// its keys, which must not have changed since. All else is asynchronous. Errors of kernels are
// thrown by a later call, at the latest by check(). Used by one thread.
class DeviceShardedLookup : public Lookup {
 public:
  DeviceShardedLookup(const Context& context, std::span<const ShardedTable> tables,
                      std::span<const ShardedFeature> features, const ShardRanks& ranks,
                      const LookupSettings& settings);
  ~DeviceShardedLookup() override;

  int64_t width() const override { return width_; }
  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  void prefetch(const Context& context, std::span<const FeatureKeys> features) override;
  double squared_gradient_norm(const Context& context, ConstAnyView gradients) override;
  void backward(const Context& context, ConstAnyView gradients, float scale, float learning_rate,
                int64_t step) override;
  void check(const Context& context) override;
  std::vector<LookupCounts> take_counts(const Context& context) override;

 private:
  // Tables that are split, or replicated ones, whose copies all ranks update alike.
  struct Local {
    std::vector<size_t> tables;
    bool replicated = false;
    std::unique_ptr<Lookup> lookup;
    std::vector<FeatureKeys> keys;
  };
  struct Shard {
    std::vector<FeatureKeys> features;
    int64_t first_bag = 0, bags = 0;
  };
  struct Routed;
  struct Memory;  // on the GPU

  void make_locals(const Context& context, const LookupSettings& settings);
  void make_requester(const Context& context, std::span<const ShardedFeature> features,
                      const LookupSettings& settings);
  void check_shards(std::span<const FeatureKeys> features) const;
  void take_shards(std::span<const FeatureKeys> features, const AnyView& out);
  int64_t asked(int rank, int64_t slot, size_t table) const;
  void route(const Context& context, std::span<const FeatureKeys> features, Routed& routed);
  void take_routed(const Context& context, std::span<const FeatureKeys> keys);
  void exchange_sizes();
  void exchange_keys(const Context& context);
  void look_up(const Context& context);
  void exchange_rows(const Context& context);
  void expand(const Context& context, const AnyView& out);
  void exchange_gradients(const Context& context, ConstAnyView gradients);
  AnyView rows() const;

  std::vector<ShardedTable> tables_;
  std::vector<MessageTable> message_tables_;
  ShardRanks ranks_;
  std::vector<Local> locals_;
  int64_t width_ = 0;
  bool any_counts_ = false, any_missing_ = false;

  Phase phase_ = Phase::kEval;
  std::vector<Shard> shards_;  // of the last pass
  int64_t bags_ = 0;
  int current_ = 0;                        // of Memory::routed
  std::vector<int32_t> requested_counts_;  // [ranks, slots, tables]
  MessageLayout asked_, requested_;
  bool gradients_exchanged_ = false;
  std::vector<LookupCounts> counts_;  // without what the GPU has counted
  std::unique_ptr<Memory> memory_;
};

std::unique_ptr<Lookup> make_sharded_lookup(const Context& context,
                                            std::span<const ShardedTable> tables,
                                            std::span<const ShardedFeature> features,
                                            const ShardRanks& ranks,
                                            const LookupSettings& settings);

}  // namespace emblem::cuda
