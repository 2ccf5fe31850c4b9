#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report/groups.h"
#include "bench/report/history_charts.h"
#include "bench/report/html_parts.h"
#include "bench/report/report.h"
#include "bench/report/svg.h"
#include "bench/report/sweeps.h"
#include "bench/result/result_table.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace report_html_parts {

std::string safe(std::string_view text) { return escape_markup(text); }

std::string describe(const Machine& machine) {
  std::string text = machine.cpu;
  if (machine.cores > 0)
    text += cat(text.empty() ? "" : ", ", machine.cores, machine.cores == 1 ? " core" : " cores");
  if (machine.memory_bytes > 0)
    text += ", " + format_bytes(static_cast<double>(machine.memory_bytes)) + " memory";
  if (!machine.gpu.empty()) text += ", " + machine.gpu;
  return text;
}

std::string times_html(const BenchResult& ours, const BenchResult* peer) {
  const std::string times = format_times(ours, peer);
  // Green only above 1x.
  return times.empty() || times.starts_with("0")
             ? times
             : fmt::format("<span class='good'>{}</span>", times);
}

std::string figure(const std::string& svg, std::string_view caption) {
  return svg.empty() ? ""
                     : fmt::format("<figure class='panel'><figcaption>{}</figcaption>{}</figure>\n",
                                   safe(caption), svg);
}

std::string figure(const LineChart& chart, std::string_view caption) {
  std::string svg = line_chart(chart);
  if (svg.empty() || chart.lines.size() < 2) return figure(svg, caption);
  svg += "<ul class='legend'>";
  for (const ChartLine& line : chart.lines)
    svg += fmt::format("<li><span class='swatch s{}'></span>{}</li>", line.color % kChartColors,
                       safe(line.name));
  return figure(svg + "</ul>", caption);
}

}  // namespace report_html_parts

namespace {

using namespace report_html_parts;

// With more results of a benchmark than this, one card shows the best.
constexpr size_t kFewCards = 6;

std::string section(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format("<section><h2>{}</h2>\n{}</section>\n", safe(title), body);
}

std::string in_columns(const std::string& figures) {
  return figures.empty() ? "" : "<div class='charts'>" + figures + "</div>\n";
}

std::string head(const Report& report) {
  std::vector<std::string> machines;
  for (const BenchResult& result : report.results) {
    const std::string machine = describe(result.machine);
    if (!machine.empty() && std::find(machines.begin(), machines.end(), machine) == machines.end())
      machines.push_back(machine);
  }
  std::string html = fmt::format("<header><h1>{}</h1>", safe(report.title));
  for (const auto& machine : machines) html += fmt::format("<p class='soft'>{}</p>", safe(machine));
  return html + "</header>\n";
}

// The number large, its unit small.
std::string card(const std::string& name, const Measure& measure, const std::string& note_html) {
  std::string value = format_metric(measure.value, measure.unit), unit;
  if (const size_t gap = value.find(' '); gap != std::string::npos) {
    unit = value.substr(gap + 1);
    value.resize(gap);
  }
  return fmt::format(
      "<div class='panel'><div class='card-name'>{}</div><div class='card-value'>{} <span "
      "class='card-unit'>{}</span></div><div class='card-note'>{}</div></div>\n",
      safe(name), safe(value), safe(unit), note_html);
}

std::string card_note(const ResultGroup& group) {
  const BenchResult& ours = *group.ours();
  const auto& [name, measure] = ours.metrics.front();
  if (const std::string gap = format_gap(ours, name, measure); !gap.empty()) return safe(gap);
  if (const BenchResult* peer = group.peer(); !times_html(ours, peer).empty())
    return fmt::format("{} {}", times_html(ours, peer), safe(peer->program));
  return safe(display_name(name));
}

bool is_better(const ResultGroup& a, const ResultGroup& b) {
  const Measure &left = a.ours()->metrics.front().second, &right = b.ours()->metrics.front().second;
  return left.better == Better::kHigher ? left.value > right.value : left.value < right.value;
}

std::string card_of(const ResultGroup& group, const std::string& prefix) {
  const auto& [name, measure] = group.ours()->metrics.front();
  const std::string what =
      group.benchmark == "training" ? cat(group.name, ", ", display_name(name)) : group.name;
  return card(prefix + what, measure, card_note(group));
}

std::string cards(const std::vector<ResultGroup>& groups) {
  std::vector<std::vector<const ResultGroup*>> kinds;
  for (const ResultGroup& group : groups) {
    if (group.ours() == nullptr || group.ours()->metrics.empty()) continue;
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& members) {
      return members.front()->benchmark == group.benchmark;
    });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), std::vector<const ResultGroup*>());
    kind->push_back(&group);
  }
  std::string html;
  for (const auto& kind : kinds) {
    if (kind.size() > kFewCards) {
      const auto best = std::min_element(
          kind.begin(), kind.end(), [](const auto* a, const auto* b) { return is_better(*a, *b); });
      html += card_of(**best, cat(kind.front()->benchmark, ", best of ", kind.size(), ": "));
    } else {
      for (const ResultGroup* group : kind) html += card_of(*group, "");
    }
  }
  return html.empty() ? "" : "<div class='cards'>" + html + "</div>\n";
}

// Constant series are listed as text instead of charts.
bool is_constant(const LineChart& chart) {
  const double first =
      chart.lines.front().points.empty() ? 0 : chart.lines.front().points.front().second;
  size_t points = 0;
  for (const ChartLine& line : chart.lines) {
    points += line.points.size();
    for (const auto& point : line.points)
      if (point.second != first) return false;
  }
  return points > chart.lines.size();
}

std::string curves(const Report& report) {
  std::string html, constant;
  for (const auto& [name, chart] : series_charts(report.results)) {
    if (line_chart(chart).empty()) continue;
    if (is_constant(chart)) {
      constant += cat(constant.empty() ? "Constant: " : ", ", display_name(name), " ",
                      fmt::format("{:.6g}", chart.lines.front().points.front().second));
      continue;
    }
    html += figure(chart, display_name(name));
  }
  html = in_columns(html);
  if (!constant.empty())
    html += fmt::format("<p class='soft small below'>{}.</p>\n", safe(constant));
  return html;
}

std::string batch_sizes(const Report& report) {
  std::string html;
  for (const LineChart& chart : batch_charts(report.results)) html += figure(chart, chart.title);
  return in_columns(html);
}

std::string sweeps(const Report& report) {
  std::string html;
  for (const SweepMap& sweep : sweep_maps(report.results))
    html += figure(heat_map(sweep.map), sweep.map.unit.empty()
                                            ? sweep.caption
                                            : cat(sweep.caption, " (", sweep.map.unit, ")"));
  return in_columns(html);
}

std::string trends(const Report& report) {
  std::string html;
  for (const LineChart& chart : trend_charts(report.history)) html += figure(chart, chart.title);
  return in_columns(html);
}

}  // namespace

std::string report_html(const Report& report) {
  const std::vector<ResultGroup> groups = group_results(report.results);
  const auto stage_names = distinct_names(
      report.results, [](const auto& r) -> auto& { return r.stages; });
  std::string html = fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
      "<meta name='viewport' content='width=device-width, "
      "initial-scale=1'><title>{}</title><style>{}</style></head>"
      "<body><main>\n",
      safe(report.title), kReportStyle);
  html += head(report) + cards(groups);
  html += section("Recommendations", advice(report));
  html += section("Baselines and verdicts", verdicts(report));
  html += section("Before and after", changes(report));
  html += section("History", trends(report));
  html += section("Curves", curves(report));
  html += section("Sweeps", sweeps(report));
  html += section("Time over batch size", batch_sizes(report));
  html += section("Results", benchmarks(groups));
  html += section("Time per step by stage", stages(groups, stage_names));
  html += section("Share of the hardware limit, measured in the same run", shares(report));
  html += section("Published figures", published(report));
  html += section("Runs", runs(report));
  return html + "</main></body></html>\n";
}

}  // namespace emblem
