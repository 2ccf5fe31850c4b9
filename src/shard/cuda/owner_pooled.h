// shard/cuda/owner_pooled.h - a part of a sharded lookup on GPUs whose bags are pooled where the
// rows are: keys go to the owner, which sends vectors back and gets their gradients.
//
// An owner pools the bags of all ranks by a sharded lookup of its own, without other ranks, in
// which every shard of every rank is a shard: gradients are summed by key and shard, then over
// shards in their order, as they are where the requesters pool.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/memory/buffer.h"
#include "shard/cuda/key_exchange.h"
#include "shard/cuda/lookup_part.h"
#include "shard/cuda/pooled_columns.h"
#include "shard/table_slices.h"

namespace emblem::cuda {

// A forward pass of an owner waits for the GPU to have found the distinct keys. All else is
// asynchronous. Errors of kernels are thrown by a later call, at the latest by check(). Used by one
// thread.
class OwnerPooled : public LookupPart {
 public:
  // Each table has an owner.
  OwnerPooled(const Context& context, std::span<const TableSlice> tables,
              std::span<const PartFeature> features, const ShardRanks& ranks,
              const LookupSettings& settings);

  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                 ExactSum& sum) override;
  void backward(const Context& context, ConstAnyView gradients,
                const StepScalars& scalars) override;
  void check(const Context& context) override;
  std::vector<int64_t> take_missing(const Context& context) override;

 private:
  // Columns of the vectors that a rank pools.
  struct Owner {
    std::vector<size_t> features;
    int64_t first = 0, width = 0;
  };

  static std::vector<Owner> owners_of(std::span<const TableSlice> tables,
                                      std::span<const PartFeature> features, int ranks);
  static std::vector<std::vector<size_t>> features_of(const std::vector<Owner>& owners);
  void make_lookup(const Context& context, std::span<const TableSlice> tables,
                   std::span<const PartFeature> features, const LookupSettings& settings);
  int64_t element_bytes() const { return size_of(ranks_.precision); }
  AnyView view(Buffer<char>& memory, int64_t rows, int64_t width) const;
  // Vectors of this rank's bags, from or to each owner. Vectors of all bags here, to or from each
  // rank.
  std::vector<Piece> own_pieces();
  std::vector<Piece> pooled_pieces();
  void exchange_gradients(const Context& context, ConstAnyView gradients);

  ShardRanks ranks_;
  const std::vector<Owner> owners_;  // by rank
  const Owner& mine_;
  size_t features_ = 0;
  int64_t width_ = 0;  // width of the vectors of all owners
  KeyExchange exchange_keys_;
  std::unique_ptr<Communicator> alone_;
  std::unique_ptr<Lookup> lookup_;  // lookup of what is pooled here; null: nothing
  Buffer<PooledColumn> columns_;

  int64_t bags_ = 0;                    // bags of this rank
  std::vector<int64_t> pooled_begins_;  // bags pooled here: by rank, and the end
  Buffer<char> own_, pooled_;           // vectors, later gradients, in the precision of exchanges
  bool gradients_exchanged_ = false;
};

}  // namespace emblem::cuda
