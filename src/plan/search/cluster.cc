#include "plan/search/cluster.h"

namespace emblem {

ClusterStep predict_cluster(const MachineProfile& profile, const Workload& workload,
                            const ClusterShape& shape) {
  EMBLEM_REQUIRE(shape.hosts >= 1 && shape.ranks() <= kParts, "--hosts ", shape.hosts,
                 " with --devices ", shape.devices, ": expected 1 to ", kParts, " devices in all");
  const CostModel model(profile, workload, even_hosts(shape.hosts, shape.devices),
                        described_exchange(shape.inside, shape.between));
  ShardPlan plan{.ranks = shape.ranks()};
  ClusterStep step;
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    plan.tables.push_back(over_all_ranks(workload.tables[t].settings.name, shape.ranks()));
    const TableLoad load = model.load_of(t, plan.tables.back());
    double elsewhere = 0;  // share of the rows that host 0 does not have
    for (size_t r = static_cast<size_t>(shape.devices); r < load.shares.size(); ++r)
      elsewhere += load.shares[r];
    step.rows_to_host +=
        shape.devices * load.keys * elsewhere * (load.merged.empty() ? 1.0 : load.merged[0]);
  }
  step.prediction = model.predict(plan);
  return step;
}

}  // namespace emblem
