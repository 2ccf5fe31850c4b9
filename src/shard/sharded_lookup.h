// shard/sharded_lookup.h - a lookup whose rows are on several ranks.
//
// Every rank asks for each distinct key of a shard of its batch once, at the rank that holds it;
// rows come back and are pooled here, in the order of the keys; or, where the plan says so, the
// rank that holds all rows pools them, and vectors of bags come back. Gradients are summed by key
// and shard here, and over shards, in their order, by the holder, which updates the row once. So
// results depend on the shards of a batch, not on the ranks that run them.
//
// forward and backward are collective: all ranks call them together, those without rows with empty
// features.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/math/half.h"
#include "embedding/lookup.h"
#include "shard/table_shards.h"

namespace emblem {

// A feature of the lookup: a table, by its number, and how the rows of a bag become one.
struct ShardedFeature {
  size_t table = 0;
  Pooling pooling = Pooling::kSum;
};

struct ShardedTable {
  TableSettings settings;  // settings of the whole table
  TableShards shards;
  Table* local = nullptr;  // the rows of this rank; borrowed
};

// Whether a table needs to know how often keys came: for admission or its scores.
inline bool counts_matter(const TableSettings& settings) {
  return settings.admission_threshold > 1 || settings.eviction == Eviction::kLfu;
}

// The settings of the part of a table that a rank holds. Throws for columns of tables whose
// optimizer needs whole rows.
TableSettings settings_of_part(const TableSettings& table, const TableShards& shards, int rank);

// What the ranks of one host do together for rows that are on other hosts.
enum class HostDedup {
  kNone,         // nothing: every rank asks for its rows
  kRows,         // each distinct row comes to a host once; gradients are those of shards
  kRowsAndSums,  // in addition, one gradient per key leaves a host: sums depend on the hosts
};

// The ranks of a lookup.
struct ShardRanks {
  Communicator* host = nullptr;    // ranks by host memory; borrowed
  Communicator* device = nullptr;  // ranks by memory of the lookup's device; the same on a CPU
  int64_t slots = 1;               // the largest number of shards of a rank
  // Type of rows and gradients that ranks send: in 16 bits, results depend on the ranks.
  DType precision = DType::kF32;
  HostDedup host_dedup = HostDedup::kNone;  // not kRows on GPUs
};

// The first column of a slice of a table by columns; of the slice after the last: the end.
int64_t first_column_of(const TableSettings& table, const TableShards& shards, int64_t slice);

// A lookup in tables on the context's device.
//
// Unlike other lookups, it takes the features of several shards, shard after shard, each shard with
// a number of bags of its own; the rows of `out`, and of gradients, are those of the shards one
// after the other.
std::unique_ptr<Lookup> make_sharded_lookup(const Context& context,
                                            std::span<const ShardedTable> tables,
                                            std::span<const ShardedFeature> features,
                                            const ShardRanks& ranks,
                                            const LookupSettings& settings = {});

}  // namespace emblem
