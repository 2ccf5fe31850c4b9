// plan/cost/step_times.h - the time of whole training steps of all ranks, under several plans.
#pragma once

#include <span>
#include <vector>

#include "plan/probe/probe.h"
#include "shard/table_shards.h"

namespace emblem {

struct PlanTimes {
  std::vector<double> seconds;  // times of a step, by StepTimesOptions::rows
  double table_bytes = 0;       // bytes of the rank that holds most
};

// Trains the model under every plan in turn, several times: the median step of the fastest turn
// counts, so that what disturbs the machine for less than all turns does not. Turns are repeated
// where the two fastest differ. `timer` gives the time of a turn. Collective; needs memory for the
// tables of all plans at once. `shards` are those of a rank.
std::vector<PlanTimes> time_steps(RankTimer& timer, const ProbeRanks& ranks,
                                  const config::PipelineConfig& config, int64_t shards,
                                  std::span<const ShardPlan> plans, const ProbeOptions& options);

// Whether turns with these median seconds need no other one: the two fastest are about equal.
bool are_settled(std::vector<double> medians);

}  // namespace emblem
