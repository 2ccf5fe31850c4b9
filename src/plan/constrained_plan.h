// plan/constrained_plan.h - the plan of a training without a plan file whose pipeline says how
// ranks may hold tables (embedding_constraints).
#pragma once

#include <optional>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "shard/plan.h"

namespace emblem {

// Rows over all ranks where that is allowed; else on one rank, or a slice of the columns on each;
// else on every rank. The largest tables that are on one rank or have fewer slices than there are
// ranks come first, on the ranks with the fewest bytes so far. Nothing where the pipeline has no
// constraints that matter: every table's rows over all ranks.
std::optional<ShardPlan> constrained_plan(const config::PipelineConfig& config,
                                          const FeatureLayout& layout, int ranks);

}  // namespace emblem
