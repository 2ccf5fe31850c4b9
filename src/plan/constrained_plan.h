// plan/constrained_plan.h - the plan of a training without a plan file whose pipeline says how
// ranks may hold tables (embedding_constraints).
#pragma once

#include <optional>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "shard/plan.h"

namespace emblem {

// Rows over all ranks where that is allowed; else on one rank, the largest tables first, each on
// the rank with the fewest bytes so far; else on every rank. Nothing where the pipeline has no
// constraints that matter: every table's rows over all ranks.
std::optional<ShardPlan> constrained_plan(const config::PipelineConfig& config,
                                          const FeatureLayout& layout, int ranks);

}  // namespace emblem
