// plan/search/holders.h - the placements that the rows of a table may have on ranks.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "shard/table_shards.h"

namespace emblem {

struct AllowedHolders {
  bool rows = true, one_rank = true, columns = true, replicated = true;

  bool any() const { return rows || one_rank || columns || replicated; }
  bool only_columns() const { return columns && !rows && !one_rank && !replicated; }
  bool operator==(const AllowedHolders&) const = default;
};

// The ways in which a table can be held.
enum class Holding { kRows, kRank, kReplicated, kColumns, kPooledRank, kPooledColumns };
inline constexpr std::array kHoldings = {Holding::kRows,       Holding::kRank,
                                         Holding::kReplicated, Holding::kColumns,
                                         Holding::kPooledRank, Holding::kPooledColumns};
Holding holding_of(const TableShards& shards);
// "rows", "rank", "replicated", "columns", "rank pooled", "columns pooled"
const char* name_of(Holding holding);
std::optional<Holding> parse_holding(const std::string& name);

// All tables held in one way, or some of them; the rows of the others are over all ranks.
struct HeldTables {
  Holding holding = Holding::kRows;
  bool every_second = false;  // the first, the third, ...
  // Tables with more keys are others, too.
  double most_keys = std::numeric_limits<double>::max();
  bool operator==(const HeldTables&) const = default;
};

// `count` neighbours, from `first` on; rank 0 follows the last.
std::vector<int> ranks_from(int first, int count, int ranks);

// "rows or one rank"
std::string to_text(const AllowedHolders& allowed);
// "rows over all ranks", "on rank 2, pooled there", "on every rank", "columns over ranks 0, 1"
std::string describe(const TableShards& shards);

}  // namespace emblem
