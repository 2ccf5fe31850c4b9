// shard/plan.h - which rank holds which rows of which table. Plain data, equal on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "embedding/parts.h"

namespace emblem {

struct TableShards {
  std::string table;
  bool replicated = false;      // every rank has all rows
  std::vector<PartRange> held;  // by rank; unless replicated they cover all parts once, in order

  bool operator==(const TableShards&) const = default;
  PartRange held_by(int rank) const {
    return replicated ? PartRange{} : held[static_cast<size_t>(rank)];
  }
};

struct ShardPlan {
  int ranks = 1;
  std::vector<TableShards> tables;

  bool operator==(const ShardPlan&) const = default;
  // Throws Error for a table that is not in the plan.
  const TableShards& of(const std::string& table) const;
};

// A table's rows over all ranks, on one of them, or on each.
TableShards over_all_ranks(const std::string& table, int ranks);
TableShards on_rank(const std::string& table, int rank, int ranks);
TableShards on_every_rank(const std::string& table);

// Throws Error when a plan is not for these ranks or tables: a table is missing, named twice or not
// there, its parts are not covered.
void check_plan(const ShardPlan& plan, int ranks, const std::vector<std::string>& tables);
void check_plan_ranks(const ShardPlan& plan, int ranks);  // the ranks alone

// One line a table, which read_plan reads back:
//
//   ranks 4
//   C1 rows              over all ranks
//   C2 rows 0-1365 1366-4095 none none
//   C3 rank 2
//   C4 replicated
std::string to_text(const ShardPlan& plan);
// Throws Error that names `path` and the line.
ShardPlan parse_plan(const std::string& text, const std::string& path);

}  // namespace emblem
