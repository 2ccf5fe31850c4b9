#include "plan/search/holders.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem {

Holding holding_of(const TableShards& shards) {
  if (shards.replicated) return Holding::kReplicated;
  const bool pooled = shards.pooled_at_owner;
  if (shards.columns.size() > 1) return pooled ? Holding::kPooledColumns : Holding::kColumns;
  const auto holders = std::count_if(shards.held.begin(), shards.held.end(),
                                     [](PartRange held) { return held.count() > 0; });
  if (pooled) return Holding::kPooledRank;
  return holders == 1 && shards.held.size() > 1 ? Holding::kRank : Holding::kRows;
}

const char* name_of(Holding holding) {
  static constexpr const char* kNames[] = {"rows",    "rank",        "replicated",
                                           "columns", "rank pooled", "columns pooled"};
  return kNames[static_cast<size_t>(holding)];
}

std::optional<Holding> parse_holding(const std::string& name) {
  for (const Holding holding : kHoldings)
    if (name == name_of(holding)) return holding;
  return std::nullopt;
}

std::vector<int> ranks_from(int first, int count, int ranks) {
  std::vector<int> neighbours;
  for (int i = 0; i < count; ++i) neighbours.push_back((first + i) % ranks);
  return neighbours;
}

std::string to_text(const AllowedHolders& allowed) {
  std::string text;
  const auto add = [&](bool is_allowed, const char* name) {
    if (is_allowed) text += (text.empty() ? "" : " or ") + std::string(name);
  };
  add(allowed.rows, "rows");
  add(allowed.one_rank, "one rank");
  add(allowed.columns, "columns");
  add(allowed.replicated, "replicated");
  return text;
}

std::string describe(const TableShards& shards) {
  if (shards.replicated) return "on every rank";
  const std::string pooled = shards.pooled_at_owner ? ", pooled there" : "";
  std::string holders;
  int count = 0;
  for (size_t r = 0; r < shards.held.size(); ++r) {
    if (shards.held[r].count() == 0) continue;
    holders += cat(count++ == 0 ? "" : ", ", r);
  }
  if (count == 1) return "on rank " + holders + pooled;
  const std::string what = shards.columns.empty() ? "rows" : "columns";
  const bool is_all = count == static_cast<int>(shards.held.size());
  return what + (is_all ? " over all ranks" : " over ranks " + holders) + pooled;
}

}  // namespace emblem
