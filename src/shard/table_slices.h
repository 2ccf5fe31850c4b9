// shard/table_slices.h - tables as a sharded lookup sees them: a slice of columns is a table of its
// own.
#pragma once

#include <vector>

#include "shard/sharded_lookup.h"

namespace emblem {

struct TableSlice {
  TableSettings settings;  // `dim` is that of the slice
  TableShards shards;      // all rows of a slice of columns are on one rank
  Table* local = nullptr;  // what this rank has of the table; borrowed
  bool is_local = true;  // that is this slice; where the rank has no slice, the first, without rows
  bool is_first = true;  // whether it is the first slice of its table
  int pooled_by = -1;    // the rank that pools bags; -1: the one that has them
};

// The slices of a table in the order of their columns, or the table itself. Throws Error where bags
// are pooled by their owner, but no rank has all rows.
std::vector<TableSlice> slices_of(const ShardedTable& table, int ranks, int self);

}  // namespace emblem
