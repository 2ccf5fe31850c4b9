#include "plan/constrained_plan.h"

#include <algorithm>

#include "model/table_placement.h"
#include "plan/workload.h"

namespace emblem {

namespace {

// The ranks that hold a table that is neither over all of them by rows nor on each; 0: it is.
int holders_of(const WorkloadTable& table, int ranks) {
  if (table.allowed.rows) return 0;
  if (table.allowed.one_rank) return 1;
  const int slices = table.slices(ranks);
  return slices > 1 ? slices : 0;
}

// The `count` ranks with the fewest bytes, in order.
std::vector<int> emptiest(const std::vector<int64_t>& bytes, int count) {
  std::vector<int> ranks =
      ranks_from(0, static_cast<int>(bytes.size()), static_cast<int>(bytes.size()));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return bytes[static_cast<size_t>(a)] < bytes[static_cast<size_t>(b)];
  });
  ranks.resize(static_cast<size_t>(count));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

std::optional<ShardPlan> constrained_plan(const config::PipelineConfig& config,
                                          const FeatureLayout& layout, int ranks) {
  const Workload workload = workload_of(config, layout, 1, 1);
  const std::vector<WorkloadTable>& tables = workload.tables;
  const bool matters = std::any_of(tables.begin(), tables.end(),
                                   [](const WorkloadTable& table) { return !table.allowed.rows; });
  if (ranks == 1 || !matters) return std::nullopt;
  ShardPlan plan{.ranks = ranks};
  std::vector<size_t> order;
  for (const WorkloadTable& table : tables) {
    const std::string& name = table.settings.name;
    if (holders_of(table, ranks) > 0) order.push_back(plan.tables.size());
    plan.tables.push_back(table.allowed.rows ? over_all_ranks(name, ranks) : on_every_rank(name));
  }
  const auto bytes = [&](size_t t) { return table_bytes_of(tables[t].settings); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  std::vector<int64_t> held(static_cast<size_t>(ranks));
  for (const size_t t : order) {
    const std::string& name = tables[t].settings.name;
    const std::vector<int> holders = emptiest(held, holders_of(tables[t], ranks));
    for (const int rank : holders)
      held[static_cast<size_t>(rank)] += bytes(t) / static_cast<int64_t>(holders.size());
    plan.tables[t] =
        holders.size() == 1 ? on_rank(name, holders[0], ranks) : by_columns(name, holders, ranks);
  }
  return plan;
}

}  // namespace emblem
