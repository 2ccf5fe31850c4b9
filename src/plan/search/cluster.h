// plan/search/cluster.h - predicted steps of clusters that were not measured.
#pragma once

#include <optional>

#include "plan/cost/cost.h"
#include "plan/probe/links.h"

namespace emblem {

struct ClusterShape {
  int hosts = 1, devices = 8;  // hosts, and devices of each
  LinkClass inside, between;

  int ranks() const { return hosts * devices; }
};

// A step with the rows of every table over all ranks.
struct ClusterStep {
  Prediction prediction;
  double rows_to_host = 0;  // from other hosts, to each
};

// Throws Error where there are more ranks than parts of a table.
ClusterStep predict_cluster(const MachineProfile& profile, const Workload& workload,
                            const ClusterShape& shape);

}  // namespace emblem
