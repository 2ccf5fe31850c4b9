// shard/cuda/key_exchange.h - keys of bags, as they are, to the ranks that pool them.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/memory/buffer.h"
#include "embedding/lookup.h"
#include "shard/sharded_lookup.h"

namespace emblem::cuda {

// Keeps its memory. Used by one thread.
class KeyExchange {
 public:
  // `features_of`: by rank, the features whose keys it gets.
  KeyExchange(const ShardRanks& ranks, std::vector<std::vector<size_t>> features_of);

  // Collective. `features` are those of this rank's shards, shard after shard, with `each`
  // features. Returns what all ranks have for this one: by rank, slot and feature of `features_of`;
  // nothing in slots without a shard. They stay until the next call; those of this rank are not
  // copied. Sizes pass through the host, which waits for other ranks but not for the GPU.
  std::vector<FeatureKeys> operator()(const Context& context, std::span<const FeatureKeys> features,
                                      size_t each);

 private:
  // What a rank has in a slot for a feature.
  struct Facts {
    int32_t bags = 0, keys = 0, has_offsets = 0, has_weights = 0;
  };
  // Where it is in messages, in bytes.
  struct Place {
    int64_t keys = 0, offsets = 0, weights = 0;
  };
  // The messages to, or from, each rank; none with itself.
  struct Messages {
    std::vector<std::vector<Facts>> facts;  // by rank
    std::vector<std::vector<Place>> places;
    std::vector<int64_t> begins;  // by rank, and the end
    Buffer<char> memory;

    void lay_out(const Context& context, size_t self);
    std::vector<Piece> pieces();
  };

  void exchange_facts(std::span<const FeatureKeys> features, size_t each);
  void write(const Context& context, std::span<const FeatureKeys> features, size_t each);

  ShardRanks ranks_;
  size_t self_;
  std::vector<std::vector<size_t>> features_of_;
  Messages sent_, received_;
};

}  // namespace emblem::cuda
