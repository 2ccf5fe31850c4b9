// shard/cuda/requester_pooled.h - a part of a sharded lookup on GPUs whose rows are sent to the
// rank that needs them, and pooled there.
//
// Where each distinct row comes to a host once, there are two of them: one asks holders on its own
// host, and for rows of other hosts the relay (shard/host_groups.h). What ranks of a host ask for
// is the batch of the other, which asks for each key once and, in place of a lookup over the
// tables here, answers the first.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/memory/buffer.h"
#include "embedding/lookup.h"
#include "shard/cuda/lookup_part.h"
#include "shard/message_layout.h"
#include "shard/table_slices.h"

namespace emblem::cuda {

// Where ranks can use each other's memory and no relay is asked, an owner writes rows to where the
// requester wants them and reads gradients from there, and announced keys travel while the GPU is
// busy with the batch before; else all is exchanged in the order of the stream.
//
// Sizes of messages pass through the host: a forward pass waits for them, unless prefetch announced
// its keys, which must not have changed since. All else is asynchronous. Errors of kernels are
// thrown by a later call, at the latest by check(). Used by one thread.
class RequesterPooled : public LookupPart {
 public:
  // Ranks that it asks for rows: those that hold them, or, as far as they are on other hosts,
  // relays.
  enum class Asks { kHolders, kRelays };
  // `width` of the whole output. With settings.placed, keys have places in the output and no bags.
  RequesterPooled(const Context& context, std::span<const TableSlice> tables,
                  std::span<const PartFeature> features, int64_t width, const ShardRanks& ranks,
                  const LookupSettings& settings, Asks asks = Asks::kHolders);
  ~RequesterPooled() override;

  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  void prefetch(const Context& context, std::span<const FeatureKeys> features) override;
  void prepare_backward(const Context& context, ConstAnyView gradients) override;
  void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                 ExactSum& sum) override;
  void backward(const Context& context, ConstAnyView gradients,
                const StepScalars& scalars) override;
  void check(const Context& context) override;
  std::vector<int64_t> take_missing(const Context& context) override;

 private:
  // Tables that are split, or replicated ones, whose copies all ranks update alike.
  struct Local {
    std::vector<size_t> tables;
    bool replicated = false;
    std::unique_ptr<Lookup> lookup;
    std::vector<FeatureKeys> keys;
  };
  struct Shard {
    int64_t first_bag = 0, bags = 0;
  };
  struct Routed;
  struct Memory;  // on the GPU

  void make_locals(const Context& context, const LookupSettings& settings);
  // Instead of a lookup over the tables that are split.
  void make_fetching(const Context& context, const LookupSettings& settings);
  // The ranks, by rank, that this one asks for its rows.
  std::vector<uint16_t> asked_instead() const;
  void make_requester(const Context& context, std::span<const PartFeature> features,
                      const LookupSettings& settings);
  void take_shards(std::span<const FeatureKeys> features);
  int64_t asked(int rank, int64_t slot, size_t table) const;
  void route(const Context& context, std::span<const FeatureKeys> features, Routed& routed);
  // Returns the context whose stream has the routed keys.
  Context take_routed(const Context& context, std::span<const FeatureKeys> keys);
  void make_rows(const Context& context, int64_t bytes);
  void exchange_sizes(const Context& context, const AnyView& out);
  void exchange_keys(const Context& context);
  void lay_requests(const Context& context);
  void answer(const Context& context);
  void expand(const Context& context, const AnyView& out);
  // Calls `use` when the sums of all requesters can be read.
  template <class Use>
  void with_sums(const Context& context, ConstAnyView gradients, const Use& use);
  AnyView rows() const;
  int64_t shift_of(int rank) const;
  std::vector<Piece> rows_of_peers() const;

  std::vector<TableSlice> tables_;
  std::vector<MessageTable> message_tables_;
  ShardRanks ranks_;
  const Asks asks_;
  const bool placed_;
  std::vector<Local> locals_;
  size_t features_ = 0;
  const int64_t width_;
  bool any_counts_ = false, any_missing_ = false;
  const bool uses_peer_memory_;
  DType answer_type_;  // type of rows that come; gradients have ranks_.precision

  Phase phase_ = Phase::kEval;
  std::vector<Shard> shards_;       // shards of the last pass
  int current_ = 0;                 // index into Memory::routed
  bool ran_since_prefetch_ = true;  // some forward pass
  // With uses_peer_memory_: where each rank wants the answers of this one.
  std::vector<const char*> rows_of_rank_;
  MessageLayout asked_, requested_;
  bool summed_ = false, gradients_exchanged_ = false;
  std::unique_ptr<Memory> memory_;
};

}  // namespace emblem::cuda
