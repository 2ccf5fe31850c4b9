// train/run/world.h - the ranks of a training; one of them is this process or thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "comm/lone_rank.h"
#include "shard/table_shards.h"

namespace emblem {

// A batch of all ranks is cut into shards, each with its own stream of data. Rank r of N has shards
// [r L / N, (r + 1) L / N): results depend on the shards, not on the ranks that run them.
//
// What it points to outlives it, and what is made with it. All collectives also work, and cost
// nothing, in a world of one rank.
struct World {
  Communicator* ranks = nullptr;    // ranks by host memory
  int64_t shards = 1;               // L, at least as many as ranks
  const ShardPlan* plan = nullptr;  // null: the rows of every table over all ranks
  // The same ranks by memory of the model's device; null: `ranks`.
  Communicator* exchange = nullptr;
  // Tables are neither divided nor cut into bins, and rows are looked up where they are.
  bool has_whole_tables = false;

  // A process by itself.
  static World alone() { return {.ranks = &lone_rank(), .has_whole_tables = true}; }

  bool is_replicated(const std::string& table) const {
    return plan != nullptr && plan->of(table).replicated;
  }
  Communicator& device_ranks() const { return exchange != nullptr ? *exchange : *ranks; }
  int rank() const { return ranks->rank(); }
  bool writes() const { return rank() == 0; }  // files and reports of all ranks
  int size() const { return ranks->size(); }
  int64_t first_shard(int rank) const { return rank * shards / size(); }
  int64_t first_shard() const { return first_shard(rank()); }
  int64_t last_shard() const { return first_shard(rank() + 1); }
  int rank_of(int64_t shard) const {
    int rank = 0;
    while (first_shard(rank + 1) <= shard) ++rank;
    return rank;
  }
  int64_t own_shards() const { return last_shard() - first_shard(); }
  // The number of a shard when ranks take turns: the first shards of all ranks come first, then the
  // second ones, ...
  int64_t turn_of(int64_t shard) const {
    const int rank = rank_of(shard);
    const int64_t slot = shard - first_shard(rank);
    int64_t turn = 0;
    for (int r = 0; r < size(); ++r) {
      const int64_t shards_of = first_shard(r + 1) - first_shard(r);
      turn += std::min(shards_of, slot) + (r < rank && shards_of > slot ? 1 : 0);
    }
    return turn;
  }
  // The largest number of shards of a rank.
  int64_t slots() const { return (shards + size() - 1) / size(); }

  // What every shard has, by shard; `own` is that of this rank's shards, `values` of each.
  template <class T>
  std::vector<T> gather(const std::vector<T>& own, size_t values = 1) const {
    const size_t each = static_cast<size_t>(slots()) * values;
    std::vector<T> mine(own), all(each * static_cast<size_t>(size())), by_shard;
    mine.resize(each);
    ranks->gather_all(Context{}, {mine.data(), each * sizeof(T)},
                      {all.data(), all.size() * sizeof(T)});
    for (int r = 0; r < size(); ++r) {
      const auto first = static_cast<size_t>(r) * each;
      const auto count = static_cast<size_t>(first_shard(r + 1) - first_shard(r)) * values;
      by_shard.insert(by_shard.end(), all.begin() + static_cast<ptrdiff_t>(first),
                      all.begin() + static_cast<ptrdiff_t>(first + count));
    }
    return by_shard;
  }
};

}  // namespace emblem
