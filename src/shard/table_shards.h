// shard/table_shards.h - the placement of the rows and columns of tables on ranks. Plain data,
// equal on all ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "embedding/parts.h"

namespace emblem {

struct TableShards {
  std::string table;
  bool replicated = false;      // every rank has all rows
  std::vector<PartRange> held;  // by rank; unless replicated they cover all parts once, in order
  // The ranks of slices of columns, in order, each once; empty: rows are whole. Then `held` is
  // everything on these ranks, nothing on others.
  std::vector<int> columns;
  // Bags are pooled where the rows are, and sent instead of them: a rank has all keys of a bag.
  bool pooled_at_owner = false;

  bool operator==(const TableShards&) const = default;
  PartRange held_by(int rank) const {
    return replicated ? PartRange{} : held[static_cast<size_t>(rank)];
  }
  // The slice of columns of a rank that has one.
  int64_t slice_of(int rank) const {
    return std::find(columns.begin(), columns.end(), rank) - columns.begin();
  }
};

struct ShardPlan {
  int ranks = 1;
  double predicted_ms = 0;  // prediction of a step by the maker of the plan; 0: not known
  std::vector<TableShards> tables;

  bool operator==(const ShardPlan&) const = default;
  // Throws Error for a table that is not in the plan.
  const TableShards& of(const std::string& table) const;
};

// A table's rows over all ranks, on one of them, or on each.
TableShards over_all_ranks(const std::string& table, int ranks);
TableShards on_rank(const std::string& table, int rank, int ranks);
TableShards on_every_rank(const std::string& table);
// Equal numbers of its columns on each of `holders`.
TableShards by_columns(const std::string& table, const std::vector<int>& holders, int ranks);

// For a table with bins (embedding/bins.h; 0: none): rows over all ranks are whole bins. Throws
// Error for other shards that cut one.
TableShards in_whole_bins(TableShards shards, int32_t bins);

// Throws Error when a plan is not for these ranks or tables: a table is missing, named twice or not
// there, its parts are not covered.
void check_plan(const ShardPlan& plan, int ranks, const std::vector<std::string>& tables);
void check_plan_ranks(const ShardPlan& plan, int ranks);  // the ranks alone

// One line per table, which read_plan reads back:
//
//   ranks 4
//   predicted_ms 3.42    of a step; optional
//   C1 rows              over all ranks
//   C2 rows 0-1365 1366-4095 none none
//   C3 rank 2
//   C4 replicated
//   C5 columns 2 0 3     the first half of the columns on rank 0, the second on rank 3
//   C6 rank 1 pooled owner
std::string to_text(const ShardPlan& plan);
// Throws Error that names `path` and the line.
ShardPlan parse_plan(const std::string& text, const std::string& path);

}  // namespace emblem
