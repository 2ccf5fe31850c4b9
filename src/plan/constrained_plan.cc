#include "plan/constrained_plan.h"

#include <algorithm>

#include "model/table_placement.h"
#include "plan/workload.h"

namespace emblem {

std::optional<ShardPlan> constrained_plan(const config::PipelineConfig& config,
                                          const FeatureLayout& layout, int ranks) {
  const Workload workload = workload_of(config, layout, 1, 1);
  ShardPlan plan{.ranks = ranks};
  std::vector<size_t> on_one;
  bool matters = false;
  for (const WorkloadTable& table : workload.tables) {
    const std::string& name = table.settings.name;
    const bool is_copied = !table.allowed.rows && !table.allowed.one_rank;
    if (!table.allowed.rows && table.allowed.one_rank) on_one.push_back(plan.tables.size());
    matters |= !table.allowed.rows;
    plan.tables.push_back(is_copied ? on_every_rank(name) : over_all_ranks(name, ranks));
  }
  if (!matters) return std::nullopt;
  const auto bytes = [&](size_t t) { return table_bytes_of(workload.tables[t].settings); };
  std::stable_sort(on_one.begin(), on_one.end(),
                   [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  std::vector<int64_t> held(static_cast<size_t>(ranks));
  for (const size_t t : on_one) {
    const auto rank = std::min_element(held.begin(), held.end()) - held.begin();
    held[static_cast<size_t>(rank)] += bytes(t);
    plan.tables[t] = on_rank(plan.tables[t].table, static_cast<int>(rank), ranks);
  }
  return plan;
}

}  // namespace emblem
