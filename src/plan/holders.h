// plan/holders.h - in which ways the rows of a table may be held by ranks.
#pragma once

#include <string>

#include "shard/plan.h"

namespace emblem {

struct AllowedHolders {
  bool rows = true, one_rank = true, replicated = true;

  bool any() const { return rows || one_rank || replicated; }
  bool operator==(const AllowedHolders&) const = default;
};

// "rows or one rank"
std::string to_text(const AllowedHolders& allowed);
// "rows over all ranks", "on rank 2, pooled there", "on every rank", "columns over ranks 0, 1"
std::string describe(const TableShards& shards);

}  // namespace emblem
