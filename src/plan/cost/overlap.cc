// What a step takes more or less than the sum of parts that were measured one by one.
#include <algorithm>

#include "plan/cost/cost.h"

namespace emblem {
namespace {

// Ways whose tables are read and updated together.
size_t group_of(Holding holding) {
  switch (holding) {
    case Holding::kRows:
    case Holding::kRank:
      return 0;
    case Holding::kReplicated:
      return 1;
    case Holding::kColumns:
      return 2;
    case Holding::kPooledRank:
    case Holding::kPooledColumns:
      return 3;
  }
  return 0;
}
constexpr size_t kGroups = 4;

size_t number_of(Holding holding) { return static_cast<size_t>(holding); }

}  // namespace

// Overlap of a probed step, more than is known of already.
double CostModel::overlap_of(const StepCosts::Held& held) const {
  const ShardPlan plan = plan_held(workload_, held.tables, ranks_);
  return held.seconds.at(static_cast<double>(workload_.rows)) - predict(plan).seconds.sum();
}

// A shard of a rank adds parts as long as those of the first, and they overlap as much.
void CostModel::set_overlaps() {
  overlap_ = 0;
  more_ = beside_ = {};
  if (profile_.ranks() == 0) return;  // a part of a profile, while it is probed
  if (ranks_ != profile_.ranks()) {
    const CostModel probed(profile_, workload_);
    overlap_ = probed.overlap_;
    more_ = probed.more_;
    beside_ = probed.beside_;
    return;
  }
  const StepCosts& steps = profile_.steps;
  CostModel parts = *this;
  parts.workload_.shards = steps.shards;
  if (const StepCosts::Held* rows = steps.find(Holding::kRows))
    parts.overlap_ = parts.overlap_of(*rows);
  for (const Holding holding : kHoldings) {
    double& more = parts.more_[number_of(holding)];
    const StepCosts::Held* held = steps.find(holding);
    if (holding == Holding::kPooledColumns) more = parts.more_[number_of(Holding::kColumns)];
    if (holding == Holding::kRows || held == nullptr) continue;
    more = 0;
    double seconds = 0;  // time of tables that are held so
    const ShardPlan plan = plan_held(workload_, held->tables, ranks_);
    for (size_t t = 0; t < plan.tables.size(); ++t)
      if (holding_of(plan.tables[t]) == holding)
        seconds += parts.load_of(t, plan.tables[t]).seconds;
    if (seconds > 0) more = parts.overlap_of(*held) / seconds;
  }
  more_ = parts.more_;
  const double shards = static_cast<double>(workload_.shards) / static_cast<double>(steps.shards);
  overlap_ = shards * parts.overlap_;
  for (const Holding holding : kHoldings)
    if (const StepCosts::Held* held = steps.find(holding, true))
      beside_[number_of(holding)] = shards * std::max(0.0, parts.overlap_of(*held));
}

double CostModel::mixture_seconds(const std::vector<const TableLoad*>& loads) const {
  double seconds = 0;
  for (size_t lookup = 0; lookup < workload_.lookups; ++lookup) {
    std::array<bool, kGroups> is_there = {};
    std::array<double, kGroups> beside = {};
    for (size_t t = 0; t < loads.size(); ++t) {
      if (workload_.tables[t].lookup != lookup) continue;
      const size_t group = group_of(loads[t]->holding);
      is_there[group] = true;
      beside[group] = std::max(beside[group], beside_[number_of(loads[t]->holding)]);
    }
    double all = 0, least = is_there[0] ? 0.0 : *std::max_element(beside.begin(), beside.end());
    for (size_t g = 0; g < kGroups; ++g) {
      if (!is_there[g]) continue;
      all += beside[g];
      least = std::min(least, beside[g]);
    }
    seconds += (all - least) / static_cast<double>(workload_.lookups);
  }
  return seconds;
}

}  // namespace emblem
