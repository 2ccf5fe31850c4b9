// shard/dense_sum.h - sums of dense gradients over the shards of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/memory/buffer.h"

namespace emblem {

// Keeps its memory. Used by one thread.
class DenseSum {
 public:
  // `ranks` exchange memory of the device of the sums. `shards_of_rank`: how many each has, in the
  // order of shards.
  DenseSum(Communicator& ranks, std::vector<int64_t> shards_of_rank);

  // `total`, equally large on all ranks, becomes the sum of the parts of all shards on every rank,
  // added along a binary tree over the shards (comm/sum_all.h). `parts` are those of this rank's
  // shards, one after the other; a single shard's may be `total`. Both are on the context's
  // device.
  void operator()(const Context& context, View<const float> parts, View<float> total);

 private:
  bool can_sum_in_place(const Context& context);
  void sum_in_place(const Context& context, View<float> total);
  // Values of all that a rank adds up.
  struct Slice {
    int64_t begin = 0, size = 0;
  };
  Slice slice_of(int64_t rank, int64_t size) const;

  Communicator& ranks_;
  std::vector<int64_t> shards_of_rank_;
  std::optional<bool> uses_peer_memory_;  // the ranks do, each with one shard
  Buffer<float> send_, received_;
};

}  // namespace emblem
