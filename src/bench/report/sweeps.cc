#include "bench/report/sweeps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bench/report/groups.h"
#include "bench/report/svg.h"
#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr double kMapWidth = 460, kMapTop = 24, kMapBottom = 44, kCellHeight = 34, kLetter = 8.2;

struct Extremes {
  double worst = 0, best = 0;

  double goodness(double value) const {  // 0 to 1
    return best == worst ? 1 : (value - worst) / (best - worst);
  }
};

std::optional<Extremes> extremes_of(const HeatMap& map) {
  std::optional<Extremes> found;
  const bool higher = map.better == Better::kHigher;
  for (const auto& row : map.values)
    for (const auto& value : row) {
      if (!value || !std::isfinite(*value)) continue;
      if (!found) found = Extremes{*value, *value};
      found->best = higher ? std::max(found->best, *value) : std::min(found->best, *value);
      found->worst = higher ? std::min(found->worst, *value) : std::max(found->worst, *value);
    }
  return found;
}

// "1.4 M" of "1.42 M samples/s": the unit is in the caption.
std::string cell_text(double value, const std::string& unit) {
  if (unit == "s" || unit == "B" || unit == "%") return format_metric(value, unit);
  std::string text = format_metric(value, unit);
  if (!unit.empty() && text.ends_with(unit)) text.resize(text.size() - unit.size());
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string cell(const HeatMap& map, const Extremes& extremes, double value, double x, double y,
                 double width) {
  const double goodness = extremes.goodness(value);
  const double opacity = 0.08 + 0.84 * goodness;
  std::string svg = fmt::format(
      "<rect class='cell{}' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' rx='3' "
      "fill-opacity='{:.2f}'><title>{}</title></rect>",
      value == extremes.best ? " best" : "", x + 1.5, y + 1.5, width - 3, kCellHeight - 3, opacity,
      escape_markup(format_metric(value, map.unit)));
  return svg + fmt::format("<text class='{}' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>",
                           goodness > 0.7 ? "on-cell" : "in-cell", x + width / 2,
                           y + kCellHeight / 2 + 5, escape_markup(cell_text(value, map.unit)));
}

// Numbers in ascending order, text in order of appearance.
struct Axis {
  std::string name;
  std::vector<std::string> values;
  bool numeric = true;
};

// The name of a setting with its unit.
std::string axis_label(const std::string& name) {
  static constexpr std::pair<const char*, const char*> kUnits[] = {{"batch", "samples"},
                                                                   {"dim", "floats"},
                                                                   {"threads", "threads"},
                                                                   {"workers", "threads"},
                                                                   {"prefetch_batches", "batches"},
                                                                   {"concurrency", "requests"}};
  for (const auto& [setting, unit] : kUnits)
    if (name == setting) return cat(display_name(name), " (", unit, ")");
  return display_name(name);
}

std::string value_of(const BenchResult& result, const std::string& setting) {
  const Setting* found = find_named(result.settings, setting);
  return found == nullptr ? "" : format_setting(*found);
}

double number_of(const BenchResult& result, const std::string& setting) {
  const Setting* found = find_named(result.settings, setting);
  if (found == nullptr) return 0;
  if (const auto* whole = std::get_if<int64_t>(found)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(found)) return *number;
  return 0;
}

std::vector<std::string> axis_names(const std::vector<const BenchResult*>& results) {
  for (const BenchResult* result : results)
    if (const Setting* axes = find_named(result->settings, "axes"))
      if (const auto* names = std::get_if<std::vector<std::string>>(axes)) return *names;
  return {"format",  "batch",        "dim",        "threads",   "workers",   "prefetch_batches",
          "shuffle", "sample_ratio", "page_cache", "precision", "placement", "concurrency"};
}

Axis axis_of(const std::vector<const BenchResult*>& results, const std::string& name) {
  Axis axis{name, {}, true};
  std::vector<std::pair<double, std::string>> found;
  for (const BenchResult* result : results) {
    const std::string value = value_of(*result, name);
    const Setting* setting = find_named(result->settings, name);
    if (setting != nullptr && !std::holds_alternative<int64_t>(*setting) &&
        !std::holds_alternative<double>(*setting))
      axis.numeric = false;
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const auto& item) { return item.second == value; });
    if (!value.empty() && !known) found.emplace_back(number_of(*result, name), value);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [number, value] : found) axis.values.push_back(std::move(value));
  return axis;
}

// The settings that vary: numbers first, those with the most values first.
std::vector<Axis> varying_axes(const std::vector<const BenchResult*>& results) {
  std::vector<Axis> axes;
  for (const std::string& name : axis_names(results)) {
    Axis axis = axis_of(results, name);
    if (axis.values.size() > 1) axes.push_back(std::move(axis));
  }
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::pair(a.numeric, a.values.size()) > std::pair(b.numeric, b.values.size());
  });
  return axes;
}

// "format raw, shuffle yes": the values of the third and further axes.
std::string facet_of(const BenchResult& result, const std::vector<Axis>& axes) {
  std::string text;
  for (size_t i = 2; i < axes.size(); ++i)
    text += cat(i > 2 ? ", " : "", display_name(axes[i].name), " ", value_of(result, axes[i].name));
  return text;
}

size_t position(const Axis& axis, const std::string& value) {
  return static_cast<size_t>(std::find(axis.values.begin(), axis.values.end(), value) -
                             axis.values.begin());
}

std::vector<SweepMap> maps_of(const std::vector<const BenchResult*>& results) {
  const std::vector<Axis> axes = varying_axes(results);
  if (axes.size() < 2) return {};
  const auto& [metric_name, first] = results.front()->metrics.front();
  const Axis &across = axes[0], &down = axes[1];
  std::vector<SweepMap> maps;
  for (const BenchResult* result : results) {
    const Measure* measure = find_named(result->metrics, metric_name);
    const std::string column = value_of(*result, across.name), row = value_of(*result, down.name);
    if (measure == nullptr || column.empty() || row.empty()) continue;
    const std::string facet = facet_of(*result, axes);
    const std::string caption =
        cat(result->benchmark, ", ", display_name(metric_name), facet.empty() ? "" : ", " + facet,
            is_ours(*result) ? "" : ", " + result->program);
    auto at = std::find_if(maps.begin(), maps.end(),
                           [&](const SweepMap& map) { return map.caption == caption; });
    if (at == maps.end()) {
      HeatMap map{caption,
                  axis_label(across.name),
                  axis_label(down.name),
                  measure->unit,
                  across.values,
                  down.values,
                  {},
                  measure->better};
      map.values.assign(down.values.size(),
                        std::vector<std::optional<double>>(across.values.size()));
      at = maps.insert(maps.end(), {caption, std::move(map)});
    }
    auto& cell = at->map.values[position(down, row)][position(across, column)];
    if (!cell) cell = measure->value;  // the first of equal settings
  }
  std::erase_if(maps, [](const SweepMap& map) {
    size_t cells = 0;
    for (const auto& row : map.map.values)
      cells += static_cast<size_t>(
          std::count_if(row.begin(), row.end(), [](const auto& v) { return v.has_value(); }));
    return cells < 4;
  });
  return maps;
}

bool is_time_of_a_batch(const std::string& name, const Measure& measure) {
  return measure.unit == "s" &&
         (name.ends_with("_p50") || name.ends_with("_p99") || name == "step_seconds");
}

// "raw-w2-p8" of "raw-w2-b8192-p8".
std::string name_without_batch(const BenchResult& result, double batch) {
  std::string name = result.name;
  const std::string part = cat("-b", static_cast<int64_t>(batch));
  if (const size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size());
  return is_ours(result) ? name : cat(name, ", ", result.program);
}

LineChart& chart_of(std::vector<LineChart>& charts, const std::string& title) {
  for (LineChart& chart : charts)
    if (chart.title == title) return chart;
  charts.push_back({title,
                    {"batch size", "samples", AxisScale::kLog, {}},
                    {"", "s", AxisScale::kLog, {}},
                    {},
                    {},
                    ""});
  return charts.back();
}

ChartLine& line_of(LineChart& chart, const std::string& name) {
  for (ChartLine& line : chart.lines)
    if (line.name == name) return line;
  chart.lines.push_back({name, {}, static_cast<int>(chart.lines.size())});
  return chart.lines.back();
}

bool has_a_line(const LineChart& chart) {
  return std::any_of(chart.lines.begin(), chart.lines.end(),
                     [](const ChartLine& line) { return line.points.size() >= 3; });
}

// At most one line per colour; further lines go to further charts.
std::vector<LineChart> split_by_colors(const LineChart& chart) {
  std::vector<LineChart> charts;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    if (i % kChartColors == 0) {
      charts.push_back(chart);
      charts.back().lines.clear();
    }
    charts.back().lines.push_back(chart.lines[i]);
    charts.back().lines.back().color = static_cast<int>(i % kChartColors);
  }
  return charts;
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  const std::optional<Extremes> extremes = extremes_of(map);
  if (!extremes || map.columns.empty()) return "";
  size_t longest = 2;
  for (const std::string& name : map.rows) longest = std::max(longest, name.size());
  const double left = std::min(16 + kLetter * static_cast<double>(longest), kMapWidth * 0.4);
  const double width = (kMapWidth - left) / static_cast<double>(map.columns.size());
  const double bottom = kMapTop + kCellHeight * static_cast<double>(map.rows.size());

  std::string svg = fmt::format(
      "<svg class='chart' viewBox='0 0 {} {:.0f}' role='img'><title>{}</title>"
      "<text class='axis' x='4' y='14'>{}</text>",
      kMapWidth, bottom + kMapBottom, escape_markup(map.title), escape_markup(map.y_label));
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = kMapTop + kCellHeight * static_cast<double>(r);
    svg += fmt::format("<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>",
                       left - 8, y + kCellHeight / 2 + 5, escape_markup(map.rows[r]));
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const std::optional<double>& value = map.values[r][c];
      if (value && std::isfinite(*value))
        svg += cell(map, *extremes, *value, left + width * static_cast<double>(c), y, width);
    }
  }
  for (size_t c = 0; c < map.columns.size(); ++c)
    svg += fmt::format("<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>",
                       left + width * (static_cast<double>(c) + 0.5), bottom + 17,
                       escape_markup(map.columns[c]));
  return svg + fmt::format("<text class='axis' x='{}' y='{:.1f}' text-anchor='end'>{}</text></svg>",
                           kMapWidth - 4, bottom + 37, escape_markup(map.x_label));
}

std::vector<SweepMap> sweep_maps(const std::vector<BenchResult>& results) {
  std::vector<SweepMap> maps;
  std::vector<std::pair<std::string, std::vector<const BenchResult*>>> kinds;
  for (const BenchResult& result : results) {
    if (result.metrics.empty()) continue;
    const std::string kind = cat(result.benchmark, "\n", result.program);
    auto at = std::find_if(kinds.begin(), kinds.end(),
                           [&](const auto& item) { return item.first == kind; });
    if (at == kinds.end()) at = kinds.insert(kinds.end(), {kind, {}});
    at->second.push_back(&result);
  }
  for (const auto& [kind, members] : kinds)
    for (SweepMap& map : maps_of(members)) maps.push_back(std::move(map));
  return maps;
}

std::vector<LineChart> batch_charts(const std::vector<BenchResult>& results) {
  std::vector<LineChart> charts;
  for (const BenchResult& result : results) {
    const double batch = number_of(result, "batch");
    if (!(batch > 0)) continue;
    for (const auto& [name, measure] : result.metrics) {
      if (!is_time_of_a_batch(name, measure)) continue;
      LineChart& chart = chart_of(charts, cat(result.benchmark, ", ", display_name(name)));
      chart.y.label = display_name(name);
      Series& points = line_of(chart, name_without_batch(result, batch)).points;
      const bool known = std::any_of(points.begin(), points.end(),
                                     [&](const auto& point) { return point.first == batch; });
      if (!known) points.emplace_back(batch, measure.value);  // the first of equal settings
    }
  }
  std::vector<LineChart> drawn;
  for (LineChart& chart : charts) {
    std::erase_if(chart.lines, [](const ChartLine& line) { return line.points.size() < 2; });
    if (!has_a_line(chart)) continue;
    for (ChartLine& line : chart.lines) std::sort(line.points.begin(), line.points.end());
    for (LineChart& part : split_by_colors(chart)) drawn.push_back(std::move(part));
  }
  return drawn;
}

}  // namespace emblem
