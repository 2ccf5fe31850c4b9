// What a step on GPUs takes more or less than the sum of parts that were measured one by one.
#include "plan/cost.h"

namespace emblem {

// The probed step against the sum of its own parts. A shard of a rank adds parts as long as those
// of the first, and they overlap as much.
double CostModel::overlap_seconds() const {
  const StepCosts& step = profile_.step;
  if (step.seconds.points().empty()) return 0;
  if (ranks_ != profile_.ranks()) return CostModel(profile_, workload_).overlap_;
  CostModel probed = *this;
  probed.overlap_ = 0;
  probed.workload_.shards = step.shards;
  ShardPlan plan{.ranks = ranks_};
  for (const WorkloadTable& table : workload_.tables)
    plan.tables.push_back(over_all_ranks(table.settings.name, ranks_));
  const double parts = probed.predict(plan).seconds.total();
  const double seconds = step.seconds.at(static_cast<double>(workload_.rows)) - parts;
  return seconds * static_cast<double>(workload_.shards) / static_cast<double>(step.shards);
}

// A lookup on a GPU reads and updates all its tables in one call, and replicated tables in another:
// a second one where it has both, which costs what few requests do.
void CostModel::add_second_calls(const std::vector<const TableLoad*>& loads,
                                 StepParts& seconds) const {
  if (profile_.device != "cuda") return;
  for (size_t lookup = 0; lookup < workload_.lookups; ++lookup) {
    const WorkloadTable *replicated = nullptr, *split = nullptr;
    for (size_t t = 0; t < loads.size(); ++t) {
      const WorkloadTable& table = workload_.tables[t];
      if (table.lookup == lookup) (loads[t]->replicated ? replicated : split) = &table;
    }
    if (replicated == nullptr || split == nullptr) continue;
    const TableCosts& costs = profile_.costs_of(replicated->settings);
    seconds.gather += costs.gather.at(0, 1, 0);
    seconds.update += costs.update.at(0, 1, 0);
  }
}

}  // namespace emblem
