// shard/host_sharded_lookup.h - a sharded lookup over tables in host memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "embedding/cpu/gather_pool.h"
#include "embedding/cpu/grouping.h"
#include "embedding/lookup.h"
#include "shard/messages.h"
#include "shard/sharded_lookup.h"
#include "shard/table_requests.h"

namespace emblem {

// Gives the same bytes with any number of threads. Used by one thread.
class HostShardedLookup : public Lookup {
 public:
  HostShardedLookup(std::span<const ShardedTable> tables, std::span<const ShardedFeature> features,
                    Communicator& ranks, int64_t slots);

  int64_t width() const override { return width_; }
  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  double squared_gradient_norm(const Context& context, ConstAnyView gradients) override;
  void backward(const Context& context, ConstAnyView gradients, float scale, float learning_rate,
                int64_t step) override;
  void check(const Context& context) override;
  std::vector<LookupCounts> take_counts(const Context& context) override;

 private:
  // A table, the rows of it that are here, and what other ranks ask for.
  struct HeldTable {
    TableSettings settings;
    bool replicated = false;
    bool sends_counts = false;  // occurrences matter to admission or scores
    bool can_miss = false;      // keys may have no row
    KeyOwners owners;
    std::unique_ptr<Lookup> lookup;  // one feature, one key a bag
    std::vector<size_t> features;    // that read it
    HostVector<int64_t> keys;        // requested, by (rank, slot); of a static table: local rows
    HostVector<int32_t> counts;
    HostVector<uint8_t> absent;
    HostVector<float> rows, gradients;  // [keys, dim]
  };
  struct Feature {
    size_t table;
    Pooling pooling;
    int64_t column;
    size_t position;  // among the features of its table
  };
  // A shard of the batch that this rank computes.
  struct Shard {
    std::vector<FeatureKeys> features;
    int64_t first_bag = 0, bags = 0;
    std::vector<TableRequests> requests;  // per table
    std::vector<Grouping> groupings;      // per table
  };

  size_t tables() const { return tables_.size(); }
  int64_t items() const { return slots_ * static_cast<int64_t>(tables_.size()); }
  int64_t item(int64_t slot, size_t table) const {
    return slot * static_cast<int64_t>(tables_.size()) + static_cast<int64_t>(table);
  }
  // Keys that this rank asks of another, and that another asks of this one.
  int64_t asked(int rank, int64_t item) const;
  int64_t requested(int rank, int64_t item) const;
  // Of them, those whose rows come back: copies of replicated tables do not.
  bool answers(int rank, size_t table) const;
  // The place of the first request of (rank, slot) in HeldTable::keys.
  template <class Body>
  void for_each_requested(size_t table, Body&& body) const;

  void take_shards(std::span<const FeatureKeys> features, AnyView out);
  void make_requests(const Context& context);
  void exchange_sizes(const Context& context);
  void exchange_keys(const Context& context);
  void look_up(const Context& context, Phase phase);
  void exchange_rows(const Context& context);
  void exchange_absent(const Context& context);
  void expand(const Context& context, View<float> out);
  void count_missing();
  void sum_by_key(const Context& context, View<const float> gradients);
  void exchange_gradients(const Context& context, ConstAnyView gradients);

  Communicator& ranks_;
  const int64_t slots_;
  std::vector<HeldTable> tables_;
  std::vector<Feature> features_;
  int64_t width_ = 0;
  bool any_counts_ = false, any_missing_ = false;

  Phase phase_ = Phase::kEval;
  std::vector<Shard> shards_;  // of the last pass
  int64_t bags_ = 0;
  HostVector<int32_t> sizes_;  // [ranks, slots, tables]: requested from here
  Messages asked_keys_, requested_keys_, asked_counts_, requested_counts_;
  Messages asked_rows_, requested_rows_, asked_absent_, requested_absent_;
  bool gradients_exchanged_ = false;
  std::vector<LookupCounts> counts_;
};

}  // namespace emblem
