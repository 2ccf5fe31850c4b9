// shard/owner_pooling.h - bags that are pooled where the rows are: their keys go to the owner,
// which sends vectors back and gets their gradients.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "embedding/lookup.h"
#include "shard/messages.h"
#include "shard/row_exchange.h"

namespace emblem {

// The exchanges of it; who pools is not its business. Every rank has the same features and calls
// the exchanges together. CPU memory. Used by one thread.
class OwnerPooling {
 public:
  struct Feature {
    int owner = 0;
    int64_t dim = 0;
    size_t source = 0;   // source of its keys
    int64_t column = 0;  // column of the output, which has `width`
  };
  // A shard of this rank: its keys, and the first of its rows of the output.
  struct Shard {
    std::span<const FeatureKeys> sources;
    int64_t first_bag = 0;
  };

  // Vectors and gradients travel in `precision`.
  OwnerPooling(Communicator& ranks, int64_t slots, DType precision);
  bool is_used() const { return !features_.empty(); }
  // Called before the first exchange; returns its number.
  size_t add(const Feature& feature);

  // 1. Keys to owners. `shards` have at most `slots`, and stay until the next call.
  void exchange_keys(const Context& context, std::vector<Shard> shards);
  // What is to be pooled here, by the owner of the feature: the keys of a rank's shard.
  FeatureKeys keys(int rank, size_t slot, size_t feature);

  // 2. The vectors [bags, dim] of other ranks, and of their keys those without a row, are written
  // by the owner; then they go to where they are needed. `missing` is by source.
  float* vectors(int rank, size_t slot, size_t feature);
  int64_t& missing(int rank, size_t slot, size_t feature);
  void exchange_vectors(const Context& context, View<float> out, std::span<LookupCounts> counts);

  // 3. Gradients to owners: where those of another rank's vectors begin, in floats.
  void exchange_gradients(const Context& context, View<const float> gradients);
  const float* gradients() { return reinterpret_cast<const float*>(owner_vectors_.data()); }
  int64_t gradients_begin(int rank, size_t slot, size_t feature) const {
    return owner_vectors_.begin(rank, item(slot, feature)) / 4;
  }

 private:
  struct Facts {
    int32_t bags = 0, keys = 0, has_offsets = 0, has_weights = 0;
  };

  int64_t items() const { return slots_ * static_cast<int64_t>(features_.size()); }
  int64_t item(size_t slot, size_t feature) const {
    return static_cast<int64_t>(slot * features_.size() + feature);
  }
  const Feature& feature_of(int64_t item) const {
    return features_[static_cast<size_t>(item) % features_.size()];
  }
  // Null where that rank does not pool it.
  const FeatureKeys* asked(int rank, int64_t item) const;
  const Facts& facts(int rank, int64_t item) const {
    return facts_[static_cast<size_t>(rank * items() + item)];
  }
  void exchange_facts(const Context& context);
  template <class Body>
  void for_each_asked(Body&& body);

  Communicator& ranks_;
  const int self_;
  const int64_t slots_;
  RowExchange exchange_rows_;
  std::vector<Feature> features_;
  std::vector<Shard> shards_;
  std::vector<Facts> facts_;  // [ranks, items]: of what is pooled here
  Messages sent_keys_, received_keys_;
  Messages own_vectors_, owner_vectors_;  // vectors of this rank's bags, and of those that it pools
};

}  // namespace emblem
