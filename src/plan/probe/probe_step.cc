// Whole steps, as a training of all ranks runs them, with all tables held in one way after the
// other.
#include <algorithm>

#include "plan/cost/cost.h"
#include "plan/cost/step_times.h"

namespace emblem {
namespace {

// Share of the free memory for the tables of plans that are timed.
constexpr double kMemoryShare = 0.5;

bool has_bags(const WorkloadTable& table) {
  return table.keys.lookups_per_row() > table.bags_per_row();
}

// What a plan may have, rows first; then two ways side by side.
std::vector<HeldTables> to_probe(const Workload& workload, int ranks) {
  if (ranks == 1) return {{Holding::kRows}};
  const auto any = [&](auto&& is_so) {
    return std::any_of(workload.tables.begin(), workload.tables.end(), is_so);
  };
  std::vector<HeldTables> held = {
      {Holding::kRows}, {Holding::kRank}, {Holding::kReplicated}, {Holding::kPooledRank}};
  if (any([&](const WorkloadTable& table) { return table.slices(ranks) > 1; }))
    held.push_back({Holding::kColumns});
  if (any([&](const WorkloadTable& table) { return table.slices(ranks) > 1 && has_bags(table); }))
    held.push_back({Holding::kPooledColumns});
  for (const HeldTables& all : std::vector<HeldTables>(held))
    if (all.holding != Holding::kRows && all.holding != Holding::kRank)
      held.push_back({all.holding, true});
  return held;
}

// False where none is left.
bool leave_out_largest(const Workload& workload, HeldTables& held) {
  double largest = 0, next = 0;
  for (const WorkloadTable& table : workload.tables)
    if (table.expected_keys <= held.most_keys) largest = std::max(largest, table.expected_keys);
  for (const WorkloadTable& table : workload.tables)
    if (table.expected_keys < largest) next = std::max(next, table.expected_keys);
  held.most_keys = next;
  return next > 0;
}

// Memory for the tables of several plans at once.
class Room {
 public:
  Room(const MachineProfile& profile, const Workload& workload)
      : model_(profile, workload), pools_(profile.memory), taken_(pools_.size()) {}

  // False where there is not enough for one more.
  bool take(const ShardPlan& plan) {
    const std::vector<RankBytes> bytes = model_.predict(plan).bytes;
    std::vector<double> taken = taken_;
    for (size_t p = 0; p < pools_.size(); ++p) {
      for (const int rank : pools_[p].ranks) taken[p] += bytes[static_cast<size_t>(rank)].total();
      if (taken[p] > kMemoryShare * static_cast<double>(pools_[p].free_bytes)) return false;
    }
    taken_ = taken;
    return true;
  }
  void clear() { std::fill(taken_.begin(), taken_.end(), 0.0); }

 private:
  const CostModel model_;
  const std::vector<MemoryPool> pools_;
  std::vector<double> taken_;  // by pool
};

}  // namespace

StepCosts probe_step(RankTimer& timer, const ProbeRanks& ranks,
                     const config::PipelineConfig& config, const Workload& workload,
                     const MachineProfile& profile, const ProbeOptions& options) {
  StepCosts costs{.shards = workload.shards};
  Room room(profile, workload);
  std::vector<HeldTables> together;
  std::vector<ShardPlan> plans;
  const auto time = [&] {
    const std::vector<PlanTimes> times =
        time_steps(timer, ranks, config, workload.shards, plans, options);
    for (size_t p = 0; p < times.size(); ++p) {
      std::vector<CurvePoint> points;
      for (size_t b = 0; b < options.rows.size(); ++b)
        points.push_back({static_cast<double>(options.rows[b]), times[p].seconds[b]});
      costs.held.push_back({together[p], Curve(std::move(points))});
    }
    together.clear();
    plans.clear();
    room.clear();
  };
  const auto take = [&](const HeldTables& held) {
    plans.push_back(plan_held(workload, held, ranks.control.size()));
    bool fits = room.take(plans.back());
    ranks.control.broadcast(Context{}, {&fits, sizeof(fits)}, 0);
    if (fits || held.holding == Holding::kRows)
      together.push_back(held);
    else
      plans.pop_back();
    return fits;
  };
  for (HeldTables held : to_probe(workload, ranks.control.size())) {
    if (take(held)) continue;
    if (!plans.empty()) time();
    while (held.holding != Holding::kRows && !take(held) && leave_out_largest(workload, held)) {
    }
  }
  if (!plans.empty()) time();
  return costs;
}

}  // namespace emblem
