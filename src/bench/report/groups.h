// bench/report/groups.h - groups results of the same workload for a report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report/svg_line_chart.h"
#include "bench/result/result.h"

namespace emblem {

// Results of the same benchmark and name in input order, those of emblem first.
struct ResultGroup {
  std::string benchmark, name;
  std::vector<const BenchResult*> members;

  const BenchResult* ours() const;  // the first result of emblem, or null
  const BenchResult* peer() const;  // the first result of another program, or null
};

bool is_ours(const BenchResult& result);

std::vector<ResultGroup> group_results(const std::vector<BenchResult>& results);

// The distinct names in `items_of` all results, in order of first appearance.
template <class Results, class ItemsOf>
std::vector<std::string> distinct_names(const Results& results, ItemsOf items_of) {
  std::vector<std::string> names;
  for (const auto& result : results)
    for (const auto& item : items_of(result)) {
      bool known = false;
      for (const auto& name : names) known = known || name == item.first;
      if (!known) names.push_back(item.first);
    }
  return names;
}

// One chart per series name, with a line for each result that has it, and the limit if set.
std::vector<std::pair<std::string, LineChart>> series_charts(
    const std::vector<BenchResult>& results);

// The value of the setting "limit_NAME".
std::optional<double> limit_of(const BenchResult& result, std::string_view name);

// "62% of 71.2 GFLOP/s": a share and the ceiling that its name mentions.
std::string format_share(const BenchResult& result, const std::string& name, double share);

// "auc 0.0012 below the limit 0.8021", or "" where there is no limit.
std::string format_gap(const BenchResult& result, const std::string& name, const Measure& measure);

// The label of a result in charts and tables: its name, and the program if that is not emblem.
std::string label_of(const BenchResult& result);

}  // namespace emblem
