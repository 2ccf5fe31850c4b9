#include "bench/report/history_charts.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRevisionLetters = 7;

// The label of a point: the revision, or else the date.
std::string name_of(const HistoryEntry& entry) {
  if (!entry.revision.empty()) return entry.revision.substr(0, kRevisionLetters);
  return entry.date.substr(0, 10);
}

std::string line_name(const std::vector<HistoryEntry>& history, const HistoryEntry& entry,
                      const BenchResult& result) {
  const bool one_environment = std::all_of(
      history.begin(), history.end(),
      [&](const HistoryEntry& other) { return other.environment == entry.environment; });
  if (one_environment) return result.name;
  return cat(result.name, ", ", result.machine.cpu, " (", entry.environment.substr(0, 4), ")");
}

LineChart& chart_of(std::vector<LineChart>& charts, const std::string& metric,
                    const Measure& measure, const std::vector<std::string>& names) {
  for (LineChart& chart : charts)
    if (chart.title == display_name(metric)) return chart;
  LineChart chart;
  chart.title = display_name(metric);
  chart.x = {"revision, oldest first", "", AxisScale::kLinear, names};
  chart.y = {display_name(metric), measure.unit, AxisScale::kLinear, {}};
  charts.push_back(std::move(chart));
  return charts.back();
}

}  // namespace

bool is_history(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return false;
  const Json json = Json::parse(line, nullptr, false);
  return json.is_object() && json.contains("results");
}

std::vector<LineChart> trend_charts(const std::vector<HistoryEntry>& history) {
  if (history.size() < 2) return {};
  std::vector<std::string> names;
  for (const HistoryEntry& entry : history) names.push_back(name_of(entry));
  std::vector<LineChart> charts;
  for (size_t i = 0; i < history.size(); ++i) {
    for (const BenchResult& result : history[i].results) {
      for (const auto& [metric, measure] : result.metrics) {
        LineChart& chart = chart_of(charts, metric, measure, names);
        const std::string name = line_name(history, history[i], result);
        auto line = std::find_if(chart.lines.begin(), chart.lines.end(),
                                 [&](const ChartLine& l) { return l.name == name; });
        if (line == chart.lines.end())
          line = chart.lines.insert(chart.lines.end(),
                                    {name, {}, static_cast<int>(chart.lines.size())});
        line->points.emplace_back(static_cast<double>(i), measure.value);
      }
    }
  }
  return charts;
}

}  // namespace emblem
