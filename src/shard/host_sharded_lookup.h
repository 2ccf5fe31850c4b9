// shard/host_sharded_lookup.h - a sharded lookup over tables in host memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/threads/thread_pool.h"
#include "embedding/cpu/chunks.h"
#include "embedding/cpu/gather_pool.h"
#include "embedding/cpu/grouping.h"
#include "embedding/cpu/host_lookup.h"
#include "embedding/lookup.h"
#include "shard/host_answers.h"
#include "shard/host_groups.h"
#include "shard/host_relay.h"
#include "shard/messages.h"
#include "shard/owner_pooling.h"
#include "shard/row_exchange.h"
#include "shard/sharded_lookup.h"
#include "shard/table_requests.h"

namespace emblem {

// Gives the same bytes with any number of threads. Used by one thread.
class HostShardedLookup : public Lookup {
 public:
  HostShardedLookup(std::span<const ShardedTable> tables, std::span<const ShardedFeature> features,
                    const ShardRanks& ranks);

  int64_t width() const override { return width_; }
  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  double squared_gradient_norm(const Context& context, ConstAnyView gradients) override;
  void backward(const Context& context, ConstAnyView gradients, float scale, float learning_rate,
                int64_t step) override;
  void check(const Context& context) override;
  std::vector<LookupCounts> take_counts(const Context& context) override;

 private:
  // A table or a slice of its columns, and which of its keys are asked for where.
  struct HeldTable {
    TableSettings settings;
    Table* local = nullptr;  // what this rank has of it, or of another slice of the same table
    bool replicated = false;
    bool sends_counts = false;  // occurrences matter to admission or scores
    bool can_miss = false;      // keys may have no row
    KeyOwners owners;
    bool counts_missing = true;         // for all slices of a table
    int pooled_by = -1;                 // the rank that pools bags; -1: the one that has them
    std::vector<size_t> features = {};  // that read it
  };
  struct Feature {
    size_t table;
    Pooling pooling;
    int64_t column;
    size_t position;  // among the features of its table
    size_t source;    // whose keys it has: several where the table is slices of columns
    size_t pooled;    // its number in pooling_, if it is pooled by an owner
  };
  // A table's keys in a shard of the batch, pooled by this rank.
  struct Unit {
    size_t table = 0;
    int rank = 0;  // whose shard it is
    size_t slot = 0;
    bool is_owner_unit = false;     // pooled here as the owner
    std::vector<FeatureKeys> keys;  // by feature of the table; empty if an owner pools them
    TableRequests requests;
    HostVector<float*> vectors;  // by number: its row, later the sum of its gradients
    Grouping grouping;
    std::vector<Occurrences> occurrences;
  };
  struct Shard {
    std::vector<FeatureKeys> sources;
    int64_t first_bag = 0, bags = 0;
    std::vector<Unit> tables;
  };

  // A part of requested_rows_.
  struct RowBlock {
    int rank;
    int64_t block;
  };

  void add_table(const ShardedTable& table);
  void add_owner_units();
  void share_rows_of_hosts(Communicator& ranks, DType precision);
  size_t tables() const { return tables_.size(); }
  // A rank exchanges one item with another for each pair of (slot, table).
  int64_t items() const { return slots_ * static_cast<int64_t>(tables_.size()); }
  int64_t item(size_t slot, size_t table) const {
    return static_cast<int64_t>(slot * tables_.size() + table);
  }
  const HeldTable& table_of(int64_t item) const {
    return tables_[static_cast<size_t>(item) % tables_.size()];
  }
  // Blocks of rows for another rank: an item each; after them, in this rank's part, those that are
  // not sent as they are: rows of owner units, and rows of which another host gets each once.
  int64_t blocks() const {
    return owner_units_.empty() && !answers_ ? items() : items() * (1 + ranks_.size());
  }
  int64_t kept_block(int rank, int64_t item) const { return items() * (1 + rank) + item; }
  const Unit* owner_unit_at(int rank, int64_t item) const;
  // Whether an item is for a rank of another host, and its rows come to a host once. Bags that an
  // owner pools are of one rank.
  bool is_shared(int rank, int64_t item) const {
    const HeldTable& table = table_of(item);
    return relay_ && !groups_->is_near(rank) && !table.replicated && table.pooled_by < 0;
  }
  // The same of what is in asked_rows_, and of what is in requested_rows_ of several ranks.
  bool is_relayed(int rank, int64_t item) const {
    return is_shared(rank, item) && (moving_ == Moving::kRows || sums_by_host_);
  }
  bool is_packed(int rank, int64_t item) const {
    return is_shared(rank, item) && moving_ == Moving::kRows && !sums_by_host_;
  }
  // Keys that the shards of this rank need of a rank; that this rank needs for its host, in the
  // first slot; that this rank asks of another, for one of both; that another asks of this one.
  int64_t needed(int rank, int64_t item) const;
  int64_t merged(int rank, int64_t item) const;
  int64_t asked(int rank, int64_t item) const;
  int64_t requested(int rank, int64_t item) const;
  FeatureKeys needed_keys(int rank, int64_t item) const;
  // Whether the rows of requests come back: copies of replicated tables do not.
  bool answers(int rank, int64_t item) const;
  // Bytes of the blocks of requested_rows_, and the block of the rows of a request.
  int64_t requested_bytes(int rank, int64_t block, int64_t bytes_of_key) const;
  RowBlock requested_block(int rank, int64_t item) const;
  // The blocks of what a unit asks of a rank. Those of this rank are read where they were written.
  float* asked_vectors(const Unit& unit, int rank);
  uint8_t* asked_absent(const Unit& unit, int rank);

  // Calls body(unit), concurrently.
  template <class Body>
  void for_each_unit(const Context& context, Body&& body) {
    parallel_for(context, static_cast<int64_t>(units_.size()), 1,
                 [&](int64_t i, int64_t) { body(*units_[static_cast<size_t>(i)]); });
  }
  void take_shards(std::span<const FeatureKeys> features, AnyView out);
  void take_owner_units(const Context& context);
  void make_requests(const Context& context);
  void exchange_sizes(const Context& context);
  void exchange_keys(const Context& context);
  void look_up(const Context& context);
  void exchange_rows(const Context& context);
  void expand(const Context& context, View<float> out);
  void count_missing();
  // Places of the blocks of vectors, which are sent or received.
  std::vector<FeaturePlace> requested_places() const;
  void find_vectors(Unit& unit);
  GatherPool gather_of(const Unit& unit, size_t feature, View<float> out);
  void sum_by_key(const Context& context, View<const float> gradients);
  void exchange_gradients(const Context& context, ConstAnyView gradients);

  Communicator& ranks_;
  const int self_;
  const int64_t slots_;
  std::vector<HeldTable> tables_;
  std::vector<Feature> features_;
  size_t sources_ = 0;
  int64_t width_ = 0;
  std::unique_ptr<HostLookup> lookup_;  // one-key bags, a feature for each (rank, item)

  Phase phase_ = Phase::kEval;
  std::vector<Shard> shards_;  // shards of the last pass
  RowExchange row_exchange_;
  OwnerPooling pooling_;
  // Where rows come to a host once.
  std::optional<HostGroups> groups_;
  std::unique_ptr<HostRelay> relay_;
  std::unique_ptr<HostAnswers> answers_;  // unless gradients are summed by host, too
  const bool sums_by_host_;
  std::vector<Unit> owner_units_;       // requests of all ranks for tables that this one pools
  std::vector<int32_t> owner_unit_at_;  // [ranks, items]: its number, or -1
  std::vector<Unit*> units_;            // shards, then requests of other ranks
  int64_t bags_ = 0;
  KeySlotsPool slots_pool_;
  HostVector<int32_t> sizes_;  // [ranks, items]: requested from here
  // Keys and, after those of all items, counts; rows and whether they are absent.
  Messages asked_keys_, requested_keys_, asked_rows_, requested_rows_;
  enum class Moving { kRows, kGradients };
  Moving moving_ = Moving::kRows;     // in asked_rows_ and requested_rows_
  std::vector<FeaturePlace> places_;  // places of requested_rows_
  std::vector<uint8_t> counted_;      // by table of lookup_: gradients add to the norm
  // Gathers of (shard, feature), then of other ranks' features.
  std::vector<GatherPool> gathers_;
  std::vector<SegmentUpdate> updates_;  // updates of units
  Chunks bag_chunks_, segment_chunks_;
  bool gradients_exchanged_ = false;
  std::vector<LookupCounts> counts_;
};

}  // namespace emblem
