// Cells of bench plan as text, and what they say together.
#include <algorithm>
#include <cmath>
#include <map>

#include "bench/plan/plan_bench.h"
#include "bench/result/result_table.h"

namespace emblem {
namespace {

constexpr double kDiffers = 0.15, kNearBest = 1.05;

double metric(const BenchResult& result, const char* name) {
  const Measure* found = find_named(result.metrics, name);
  return found == nullptr ? 0 : found->value;
}

std::string setting(const BenchResult& result, const char* name) {
  const Setting* found = find_named(result.settings, name);
  return found == nullptr ? "" : format_setting(*found);
}

std::string percent(double share) {
  return cat(share < 0 ? "" : "+", std::lround(100 * share), " %");
}

// Cells that differ in their plans alone.
std::map<std::string, std::vector<const BenchResult*>> groups_of(
    const std::vector<BenchResult>& results) {
  std::map<std::string, std::vector<const BenchResult*>> groups;
  for (const BenchResult& result : results)
    groups[cat(setting(result, "transport"), " ", setting(result, "ranks"), " ",
               setting(result, "dim"), " ", setting(result, "batch"))]
        .push_back(&result);
  return groups;
}

void compare_plans(const std::vector<const BenchResult*>& cells, PlanBenchSummary& summary) {
  double fastest = 0;
  for (const BenchResult* cell : cells) {
    const double seconds = metric(*cell, "measured_seconds");
    if (fastest == 0 || seconds < fastest) fastest = seconds;
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    const double one = metric(*cells[i], "measured_seconds");
    for (size_t j = i + 1; j < cells.size(); ++j) {
      const double other = metric(*cells[j], "measured_seconds");
      if (std::max(one, other) < (1 + kDiffers) * std::min(one, other)) continue;
      ++summary.pairs;
      summary.pairs_in_order += (one < other) == (metric(*cells[i], "predicted_seconds") <
                                                  metric(*cells[j], "predicted_seconds"));
    }
    if (setting(*cells[i], "kind") != "planned" || cells.size() == 1) continue;
    ++summary.choices;
    summary.best_choices += one <= kNearBest * fastest;
    summary.worst_choice = std::max(summary.worst_choice, one / fastest);
  }
}

}  // namespace

PlanBenchSummary summarize_plans(const std::vector<BenchResult>& results) {
  PlanBenchSummary summary;
  for (const BenchResult& result : results) {
    const double error = metric(result, "error");
    ++summary.cells;
    summary.within_15 += error <= 0.15;
    summary.within_25 += error <= 0.25;
    summary.worst_error = std::max(summary.worst_error, error);
    const double bytes = std::max(1.0, metric(result, "table_bytes"));
    summary.worst_memory_error = std::max(
        summary.worst_memory_error, std::abs(metric(result, "predicted_table_bytes") / bytes - 1));
    summary.worst_search = std::max(summary.worst_search, metric(result, "search_ratio"));
  }
  for (const auto& [name, cells] : groups_of(results)) compare_plans(cells, summary);
  return summary;
}

std::string to_text(const PlanBenchSummary& summary) {
  const auto share = [](size_t part, size_t all) {
    return cat(part, " of ", all,
               all == 0 ? "" : cat(" (", std::lround(100.0 * part / all), " %)"));
  };
  return cat("step time within 15 %: ", share(summary.within_15, summary.cells),
             "; within 25 %: ", share(summary.within_25, summary.cells), "; worst ",
             std::lround(100 * summary.worst_error), " %\n", "memory of tables: worst ",
             std::lround(100 * summary.worst_memory_error), " %\n",
             "plans that differ by more than 15 % in the right order: ",
             share(summary.pairs_in_order, summary.pairs), "\n",
             "the planned one is within 5 % of the fastest measured: ",
             share(summary.best_choices, summary.choices), "; worst ",
             percent(summary.worst_choice - 1), "\n",
             "the search against the best of all plans, predicted: worst ",
             percent(summary.worst_search - 1), "\n");
}

std::string plan_table(const std::vector<BenchResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"plan", "transport", "ranks", "dim", "batch", "measured", "predicted", "error", "tables"}};
  for (const BenchResult& result : results) {
    const double measured = metric(result, "measured_seconds"),
                 predicted = metric(result, "predicted_seconds");
    rows.push_back({setting(result, "kind"), setting(result, "transport"), setting(result, "ranks"),
                    setting(result, "dim"), setting(result, "batch"), format_metric(measured, "s"),
                    format_metric(predicted, "s"), percent(predicted / measured - 1),
                    percent(metric(result, "predicted_table_bytes") /
                                std::max(1.0, metric(result, "table_bytes")) -
                            1)});
  }
  return align_columns(rows);
}

}  // namespace emblem
