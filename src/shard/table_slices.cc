#include "shard/table_slices.h"

#include <algorithm>

namespace emblem {
namespace {

// The rank that has all rows.
int holder_of(const TableShards& shards) {
  const auto found = std::find_if(shards.held.begin(), shards.held.end(),
                                  [](const PartRange& held) { return held.is_everything(); });
  EMBLEM_REQUIRE(found != shards.held.end(), "table ", shards.table,
                 " cannot be pooled at its owner: no rank has all of its rows");
  return static_cast<int>(found - shards.held.begin());
}

}  // namespace

std::vector<TableSlice> slices_of(const ShardedTable& table, int ranks, int self) {
  std::vector<TableSlice> slices;
  const std::vector<int>& holders = table.shards.columns;
  if (holders.empty())
    slices.push_back({.settings = table.settings, .shards = table.shards, .local = table.local});
  const bool has_one = std::find(holders.begin(), holders.end(), self) != holders.end();
  for (size_t s = 0; s < holders.size(); ++s) {
    const auto number = static_cast<int64_t>(s);
    TableSlice& slice = slices.emplace_back();
    slice.settings = table.settings;
    slice.settings.dim = first_column_of(table.settings, table.shards, number + 1) -
                         first_column_of(table.settings, table.shards, number);
    slice.shards = on_rank(table.shards.table, holders[s], ranks);
    slice.local = table.local;
    slice.is_local = has_one ? holders[s] == self : s == 0;
    slice.is_first = s == 0;
  }
  for (TableSlice& slice : slices)
    if (table.shards.pooled_at_owner) slice.pooled_by = holder_of(slice.shards);
  return slices;
}

}  // namespace emblem
