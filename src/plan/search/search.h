// plan/search/search.h - the plan with the lowest predicted step time that fits into memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "plan/cost/cost.h"
#include "shard/table_shards.h"

namespace emblem {

// The plan of a training without a plan file whose pipeline says how ranks may hold tables
// (embedding_constraints). Rows over all ranks where that is allowed; else on one rank, or a slice
// of the columns on each; else on every rank. The largest tables that are on one rank or have fewer
// slices than there are ranks come first, on the ranks with the fewest bytes so far. Nothing where
// the pipeline has no constraints that matter: every table's rows over all ranks.
std::optional<ShardPlan> constrained_plan(const config::PipelineConfig& config,
                                          const FeatureLayout& layout, int ranks);

// The share of the free memory that a plan may take.
inline constexpr double kUsableMemory = 0.98;

struct FoundPlan {
  ShardPlan plan;  // with its prediction
  Prediction prediction;
  int64_t evaluated = 0;  // plans
};

// The bytes by which a plan exceeds each pool; 0 where it fits.
std::vector<double> bytes_short(const Prediction& prediction, const std::vector<MemoryPool>& pools);

// The ways in which a table may be held: rows over all ranks, on each rank, replicated, columns
// over all ranks, or over each row of neighbours where there are fewer; where bags have several
// keys, also pooled by the owner.
std::vector<TableShards> candidates_of(const WorkloadTable& table, int ranks);

// Moves of one table and of two, from several starts, until none makes the step faster.
// Deterministic. The result may not fit where it finds none that does: see explain_misfit.
FoundPlan search_plan(const CostModel& model, const std::vector<MemoryPool>& pools);

// Every plan; nothing where there are more than `most`.
std::optional<FoundPlan> search_all_plans(const CostModel& model,
                                          const std::vector<MemoryPool>& pools,
                                          int64_t most = 100'000);

// Why no plan fits, in one line: which rank, how many bytes are missing, its largest table, and the
// smallest change that would fit. Nothing if `found` fits.
std::optional<std::string> explain_misfit(const CostModel& model,
                                          const std::vector<MemoryPool>& pools,
                                          const FoundPlan& found);

// One line per table: where it is, and by how much the step would be slower in each other way.
std::vector<std::string> explain_plan(const CostModel& model, const std::vector<MemoryPool>& pools,
                                      const FoundPlan& found);

}  // namespace emblem
