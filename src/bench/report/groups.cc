#include "bench/report/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/result/result_table.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string unit_of_ceiling(std::string_view name) {
  if (name.ends_with("_bytes_per_second")) return "B/s";
  if (name.ends_with("_flops_per_second")) return "FLOP/s";
  return "/s";
}

bool has_word(const std::string& name, const std::string& word) {
  const std::vector<std::string> words = split(display_name(name), ' ');
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool is_ours(const BenchResult& result) { return result.program.starts_with("emblem"); }

const BenchResult* ResultGroup::ours() const {
  return !members.empty() && is_ours(*members.front()) ? members.front() : nullptr;
}

const BenchResult* ResultGroup::peer() const {
  const auto at =
      std::find_if(members.begin(), members.end(), [](const auto* r) { return !is_ours(*r); });
  return at == members.end() ? nullptr : *at;
}

std::vector<ResultGroup> group_results(const std::vector<BenchResult>& results) {
  std::vector<ResultGroup> groups;
  for (const BenchResult& result : results) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ResultGroup& g) {
      return g.benchmark == result.benchmark && g.name == result.name;
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), {result.benchmark, result.name, {}});
    group->members.push_back(&result);
  }
  for (ResultGroup& group : groups)
    std::stable_partition(group.members.begin(), group.members.end(),
                          [](const auto* r) { return is_ours(*r); });
  return groups;
}

std::optional<double> limit_of(const BenchResult& result, std::string_view name) {
  const Setting* setting = find_named(result.settings, cat("limit_", name));
  if (setting == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(setting)) return *number;
  if (const auto* number = std::get_if<int64_t>(setting)) return static_cast<double>(*number);
  return std::nullopt;
}

std::vector<std::pair<std::string, LineChart>> series_charts(
    const std::vector<BenchResult>& results) {
  std::vector<std::pair<std::string, LineChart>> charts;
  for (const std::string& name : distinct_names(
           results, [](const auto& r) -> auto& { return r.series; })) {
    LineChart chart;
    chart.title = display_name(name);
    chart.x.label = "step";
    chart.y.label = display_name(name);
    chart.limit_name = "limit";
    for (const BenchResult& result : results) {
      const Series* series = find_named(result.series, name);
      if (series == nullptr) continue;
      chart.lines.push_back({label_of(result), *series, static_cast<int>(chart.lines.size())});
      if (!chart.limit) chart.limit = limit_of(result, name);
    }
    charts.emplace_back(name, std::move(chart));
  }
  return charts;
}

std::string format_share(const BenchResult& result, const std::string& name, double share) {
  const std::string text = fmt::format("{:.0f}%", 100 * share);
  for (const auto& [ceiling, value] : result.ceilings) {
    // Names of shares contain the first word of their ceiling: "gemm" of "gemm_flops_per_second".
    if (has_word(name, ceiling.substr(0, ceiling.find('_'))))
      return text + " of " + format_metric(value, unit_of_ceiling(ceiling));
  }
  return text;
}

std::string format_gap(const BenchResult& result, const std::string& name, const Measure& measure) {
  const auto limit = limit_of(result, name);
  if (!limit || !std::isfinite(measure.value)) return "";
  const double gap = measure.value - *limit;
  return fmt::format("{} {} the limit {}", format_metric(std::abs(gap), measure.unit),
                     gap < 0 ? "below" : "above", format_metric(*limit, measure.unit));
}

std::string label_of(const BenchResult& result) {
  return is_ours(result) ? result.name : cat(result.name, ", ", result.program);
}

}  // namespace emblem
