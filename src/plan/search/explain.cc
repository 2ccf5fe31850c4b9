// What a search found, in words.
#include <algorithm>
#include <cmath>

#include "core/text/text.h"
#include "emblem/error.h"
#include "plan/search/search.h"

namespace emblem {
namespace {

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

std::string name_of_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return cat("rank ", ranks[0]);
  return cat("ranks ", ranks.front(), " to ", ranks.back(), " together");
}

// The smallest number of ranks over which all rows fit, where each has as much memory as now; 0:
// none below 4096.
int ranks_that_fit(const CostModel& model, const std::vector<MemoryPool>& pools) {
  double most = 0;
  for (const MemoryPool& pool : pools)
    most = std::max(most, kUsableMemory * static_cast<double>(pool.free_bytes) /
                              static_cast<double>(pool.ranks.size()));
  double tables = 0, others = 0;
  for (size_t t = 0; t < model.workload().tables.size(); ++t) {
    const std::string& name = model.workload().tables[t].settings.name;
    const TableLoad load = model.load_of(t, over_all_ranks(name, model.ranks()));
    for (const RankBytes& bytes : load.bytes) tables += bytes.tables;
    others += load.bytes[0].exchange;
  }
  others += static_cast<double>(model.workload().dense_bytes);
  if (others >= most) return 0;
  const double ranks = std::ceil(tables / (most - others));
  return ranks <= kParts ? static_cast<int>(ranks) : 0;
}

bool has_constraints(const Workload& workload) {
  return std::any_of(
      workload.tables.begin(), workload.tables.end(),
      [](const WorkloadTable& table) { return !(table.allowed == AllowedHolders{}); });
}

}  // namespace

std::optional<std::string> explain_misfit(const CostModel& model,
                                          const std::vector<MemoryPool>& pools,
                                          const FoundPlan& found) {
  const std::vector<double> missing = bytes_short(found.prediction, pools);
  if (total(missing) <= 0) return std::nullopt;
  const auto worst =
      static_cast<size_t>(std::max_element(missing.begin(), missing.end()) - missing.begin());
  const MemoryPool& pool = pools[worst];
  double needed = 0, largest = -1;
  size_t table = 0;
  for (const int rank : pool.ranks)
    needed += found.prediction.bytes[static_cast<size_t>(rank)].total();
  const Workload& workload = model.workload();
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    const TableLoad load = model.load_of(t, found.plan.tables[t]);
    double bytes = 0;
    for (const int rank : pool.ranks) bytes += load.bytes[static_cast<size_t>(rank)].tables;
    if (bytes <= largest) continue;
    largest = bytes;
    table = t;
  }
  const std::string name = workload.tables.empty() ? "" : workload.tables[table].settings.name;
  std::string change;
  if (has_constraints(workload)) {
    Workload free = workload;
    for (WorkloadTable& each : free.tables) each.allowed = {};
    // Costs do not depend on constraints, so the same model with free tables tells.
    const CostModel unbound = model.with(free);
    const FoundPlan other = search_plan(unbound, pools);
    if (total(bytes_short(other.prediction, pools)) <= 0)
      for (size_t t = 0; t < workload.tables.size() && change.empty(); ++t)
        if (!(other.plan.tables[t] == found.plan.tables[t]) &&
            !(workload.tables[t].allowed == AllowedHolders{}))
          change = cat("let table ", workload.tables[t].settings.name, ", which may be ",
                       to_text(workload.tables[t].allowed), " only, be ",
                       describe(other.plan.tables[t]), " (embedding_constraints)");
  }
  const int ranks = ranks_that_fit(model, pools);
  if (change.empty() && ranks > model.ranks())
    change = cat("use ", ranks, " ranks with as much memory each");
  if (change.empty() && largest > missing[worst])
    change =
        cat("give table ", name, " ", std::ceil(100 * missing[worst] / largest), " % fewer rows");
  if (change.empty()) change = "use a smaller batch, or more memory";
  return cat(
      "no plan fits: ", name_of_ranks(pool.ranks), " would need ", format_bytes(needed), " of ",
      format_bytes(kUsableMemory * static_cast<double>(pool.free_bytes)), " that are free, ",
      format_bytes(missing[worst]), " too many; the largest table there is ", name, " (",
      describe(found.plan.tables[table]), ", ", format_bytes(largest), "). To fit: ", change);
}

std::vector<std::string> explain_plan(const CostModel& model, const std::vector<MemoryPool>& pools,
                                      const FoundPlan& found) {
  std::vector<std::string> lines;
  const Workload& workload = model.workload();
  std::vector<TableLoad> loads;
  for (size_t t = 0; t < workload.tables.size(); ++t)
    loads.push_back(model.load_of(t, found.plan.tables[t]));
  std::vector<const TableLoad*> chosen;
  for (const TableLoad& load : loads) chosen.push_back(&load);
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    const WorkloadTable& table = workload.tables[t];
    std::string others;
    bool ranks_shown[2] = {};  // by pooled_at_owner
    for (const TableShards& shards : candidates_of(table, model.ranks())) {
      if (shards == found.plan.tables[t]) continue;
      const bool is_rank = !shards.replicated && describe(shards).starts_with("on rank");
      if (is_rank && std::exchange(ranks_shown[shards.pooled_at_owner], true)) continue;
      const TableLoad load = model.load_of(t, shards);
      std::vector<const TableLoad*> changed = chosen;
      changed[t] = &load;
      const Prediction prediction = model.predict(changed);
      const double slower = prediction.seconds.total() - found.prediction.seconds.total();
      const bool fits = total(bytes_short(prediction, pools)) <= 0;
      others += cat(others.empty() ? "" : "; ", describe(shards), ": ",
                    fits ? cat(slower < 0 ? "" : "+", std::round(1e6 * slower) / 1e3, " ms")
                         : std::string("does not fit"));
    }
    if (others.empty()) others = "no other way is allowed";
    lines.push_back(
        cat(table.settings.name, ": ", describe(found.plan.tables[t]), ", because ", others));
  }
  return lines;
}

}  // namespace emblem
