#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report.h"
#include "bench/report_groups.h"
#include "bench/report_style.h"
#include "bench/result_table.h"
#include "bench/svg.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string safe(std::string_view text) { return escape_markup(text); }

std::string section(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format("<section><h2>{}</h2>\n{}</section>\n", safe(title), body);
}

// ---- head and cards
// ------------------------------------------------------------------------------

std::string describe(const Machine& machine) {
  std::string text = machine.cpu;
  if (machine.cores > 0)
    text += cat(text.empty() ? "" : ", ", machine.cores, machine.cores == 1 ? " core" : " cores");
  if (machine.memory_bytes > 0)
    text += ", " + format_bytes(static_cast<double>(machine.memory_bytes)) + " memory";
  if (!machine.gpu.empty()) text += ", " + machine.gpu;
  return text;
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

std::string times_html(const BenchResult& ours, const BenchResult* peer) {
  const std::string times = format_times(ours, peer);
  // Only what is better gets the colour of success.
  return times.empty() || times.starts_with("0")
             ? times
             : fmt::format("<span class='good'>{}</span>", times);
}

std::string card_note(const ResultGroup& group) {
  const BenchResult& ours = *group.ours();
  const auto& [name, measure] = ours.metrics.front();
  if (const std::string gap = format_gap(ours, name, measure); !gap.empty()) return safe(gap);
  if (const BenchResult* peer = group.peer(); !times_html(ours, peer).empty())
    return fmt::format("{} {}", times_html(ours, peer), safe(peer->program));
  return safe(spoken(name));
}

std::string cards(const std::vector<ResultGroup>& groups) {
  std::string html;
  for (const ResultGroup& group : groups) {
    if (group.ours() == nullptr || group.ours()->metrics.empty()) continue;
    const auto& [name, measure] = group.ours()->metrics.front();
    const std::string what =
        group.benchmark == "training" ? cat(group.name, ", ", spoken(name)) : group.name;
    html += card(what, measure, card_note(group));
  }
  return html.empty() ? "" : "<div class='cards'>" + html + "</div>\n";
}

// ---- curves
// --------------------------------------------------------------------------------------

// A rate that never changes needs no chart.
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
    const std::string svg = line_chart(chart);
    if (svg.empty()) continue;
    if (is_constant(chart)) {
      constant += cat(constant.empty() ? "Constant: " : ", ", spoken(name), " ",
                      fmt::format("{:.6g}", chart.lines.front().points.front().second));
      continue;
    }
    html +=
        fmt::format("<figure class='panel'><figcaption>{}</figcaption>{}", safe(spoken(name)), svg);
    if (chart.lines.size() > 1) {
      html += "<ul class='legend'>";
      for (const ChartLine& line : chart.lines)
        html += fmt::format("<li><span class='swatch s{}'></span>{}</li>",
                            line.color % kChartColors, safe(line.name));
      html += "</ul>";
    }
    html += "</figure>\n";
  }
  if (!html.empty()) html = "<div class='charts'>" + html + "</div>\n";
  if (!constant.empty())
    html += fmt::format("<p class='soft small below'>{}.</p>\n", safe(constant));
  return html;
}

// ---- tables
// --------------------------------------------------------------------------------------

// How long a bar is beside its group's longest, for the first metric.
std::string cell_bar(const ResultGroup& group, const BenchResult& result) {
  if (result.metrics.empty()) return "<td class='cell-bar'></td>";
  const auto& [name, measure] = result.metrics.front();
  double longest = 0;
  for (const BenchResult* member : group.members)
    if (const Measure* other = find_named(member->metrics, name))
      longest = std::max(longest, other->value);
  return fmt::format("<td class='cell-bar'>{}</td>",
                     stacked_bar({{spoken(name), measure.value, is_ours(result) ? 0 : 1}}, longest,
                                 label_of(result)));
}

std::string measure_cell(const Measure* measure) {
  if (measure == nullptr) return "<td class='number'></td>";
  std::string text = safe(format_metric(measure->value, measure->unit));
  if (measure->spread > 0 && measure->value != 0)
    text += fmt::format(" <span class='soft small'>±{:.2g}%</span>",
                        100 * measure->spread / std::abs(measure->value));
  return fmt::format("<td class='number'>{}</td>", text);
}

// One table a kind of benchmark, so that its columns are its metrics.
std::string benchmark_table(const std::vector<const ResultGroup*>& groups) {
  std::vector<const BenchResult*> members;
  for (const ResultGroup* group : groups)
    members.insert(members.end(), group->members.begin(), group->members.end());
  const auto names = distinct_names(
      members, [](const auto* r) -> auto& { return r->metrics; });
  if (names.empty()) return "";
  const bool compared =
      std::any_of(groups.begin(), groups.end(), [](auto* g) { return g->ours() && g->peer(); });

  std::string html = fmt::format(
      "<div class='panel'><h3>{}</h3><div class='scroll'><table><thead><tr><th>name</th>"
      "<th>program</th>",
      safe(groups.front()->benchmark));
  if (compared) html += "<th class='cell-bar'></th>";
  for (const auto& name : names)
    html += fmt::format("<th class='number'>{}</th>", safe(spoken(name)));
  if (compared) html += "<th class='number'>times peer</th>";
  html += "</tr></thead><tbody>\n";
  for (const ResultGroup* group : groups) {
    for (const BenchResult* result : group->members) {
      html += result == group->members.back() ? "<tr>" : "<tr class='inner'>";
      if (result == group->members.front())
        html += fmt::format("<td class='name group{}' rowspan='{}'>{}</td>",
                            group == groups.back() ? " last" : "", group->members.size(),
                            safe(group->name));
      html += fmt::format("<td class='program'>{}</td>", safe(result->program));
      if (compared) html += cell_bar(*group, *result);
      for (const auto& name : names) html += measure_cell(find_named(result->metrics, name));
      if (compared)
        html += fmt::format("<td class='number'>{}</td>",
                            is_ours(*result) ? times_html(*result, group->peer()) : "");
      html += "</tr>\n";
    }
  }
  return html + "</tbody></table></div></div>\n";
}

std::string benchmarks(const std::vector<ResultGroup>& groups) {
  std::vector<std::vector<const ResultGroup*>> kinds;
  for (const ResultGroup& group : groups) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) {
      return k.front()->benchmark == group.benchmark;
    });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), std::vector<const ResultGroup*>());
    kind->push_back(&group);
  }
  std::string html;
  for (const auto& kind : kinds) html += benchmark_table(kind);
  return html;
}

// ---- stages and shares
// ---------------------------------------------------------------------------

double total_of(const Named<double>& parts) {
  double total = 0;
  for (const auto& [name, value] : parts) total += value > 0 ? value : 0;
  return total;
}

std::string stage_row(const BenchResult& result, double longest,
                      const std::vector<std::string>& colors) {
  std::vector<BarPart> parts;
  std::string legend;
  const double total = total_of(result.stages);
  for (const auto& [name, seconds] : result.stages) {
    const auto color =
        static_cast<int>(std::find(colors.begin(), colors.end(), name) - colors.begin());
    const std::string text = format_metric(seconds, "s");
    parts.push_back({cat(spoken(name), " ", text), seconds, color});
    legend += fmt::format(
        "<li><span class='swatch s{}'></span>{} <b>{}</b> <span class='soft'>{:.0f}%</span></li>",
        color % kChartColors, safe(spoken(name)), text, total > 0 ? 100 * seconds / total : 0);
  }
  return fmt::format(
      "<div class='bar-row'><div class='bar-head'><span>{}</span><b>{}</b></div>{}<ul "
      "class='legend'>{}</ul>"
      "</div>\n",
      safe(result.program), format_metric(total, "s"),
      stacked_bar(parts, longest, cat("stages of ", label_of(result))), legend);
}

std::string stages(const std::vector<ResultGroup>& groups, const std::vector<std::string>& colors) {
  std::string html;
  for (const ResultGroup& group : groups) {
    double longest = 0;
    for (const BenchResult* result : group.members)
      longest = std::max(longest, total_of(result->stages));
    if (!(longest > 0)) continue;
    html += fmt::format("<div class='panel'><h3>{}</h3>", safe(group.name));
    for (const BenchResult* result : group.members)
      if (!result->stages.empty()) html += stage_row(*result, longest, colors);
    html += "</div>\n";
  }
  return html;
}

std::string shares(const Report& report) {
  std::string html;
  for (const BenchResult& result : report.results) {
    if (result.shares.empty()) continue;
    html += fmt::format("<div class='panel'><h3>{}</h3>", safe(label_of(result)));
    for (const auto& [name, share] : result.shares) {
      const std::string text = format_share(result, name, share);
      html += fmt::format(
          "<div class='bar-row'><div class='bar-head'><span>{}</span><b>{}</b></div>{}</div>\n",
          safe(spoken(name)), safe(text),
          stacked_bar({{text, share, 0}}, 1.0, cat(name, " ", text)));
    }
    html += "</div>\n";
  }
  return html.empty() ? "" : "<div class='charts'>" + html + "</div>\n";
}

// ---- published figures and runs
// ------------------------------------------------------------------

std::string source_cell(const std::string& source) {
  if (!source.starts_with("https://"))
    return fmt::format("<td class='small'>{}</td>", safe(source));
  const std::string shown = source.substr(8);
  return fmt::format("<td class='small name'><a href='{}'>{}</a></td>", safe(source), safe(shown));
}

std::string reference_panel(const ReferenceTable& table) {
  std::string html = fmt::format("<div class='panel'><h3>{}</h3>", safe(table.title));
  if (!table.note.empty()) html += fmt::format("<p class='soft small'>{}</p>", safe(table.note));
  html += "<div class='scroll'><table><thead><tr><th>system</th><th>hardware</th><th>workload</th>";
  for (const auto& [name, unit] : table.metrics)
    html += fmt::format("<th class='number'>{}</th>", safe(spoken(name)));
  html += "<th>source</th></tr></thead><tbody>\n";
  for (const ReferenceFigure& figure : table.figures) {
    html += fmt::format("<tr><td class='name'>{}</td><td>{}</td><td>{}{}{}</td>",
                        safe(figure.system), safe(figure.hardware), safe(figure.workload),
                        figure.settings.empty() ? "" : ", ", safe(figure.settings));
    for (const auto& [name, unit] : table.metrics) {
      const double* value = find_named(figure.values, name);
      html += fmt::format("<td class='number'>{}</td>",
                          value == nullptr ? "" : safe(format_metric(*value, unit)));
    }
    html += source_cell(figure.source) + "</tr>\n";
  }
  return html + "</tbody></table></div></div>\n";
}

std::string runs(const Report& report) {
  std::string html;
  for (const BenchResult& result : report.results) {
    html += fmt::format("<details><summary>{} {} <span class='soft'>{}</span></summary><dl>",
                        safe(result.benchmark), safe(result.name), safe(result.program));
    const auto item = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) html += fmt::format("<dt>{}</dt><dd>{}</dd>", safe(name), safe(value));
    };
    item("date", result.date);
    item("machine", describe(result.machine));
    item("system", result.machine.os);
    item("compiler", result.machine.compiler);
    for (const auto& [name, setting] : result.settings) item(spoken(name), format_setting(setting));
    html += "</dl></details>\n";
  }
  return html.empty() ? "" : "<div class='panel'>" + html + "</div>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  const std::vector<ResultGroup> groups = group_results(report.results);
  const auto stage_names = distinct_names(
      report.results, [](const auto& r) -> auto& { return r.stages; });
  std::string published;
  for (const ReferenceTable& table : report.references) published += reference_panel(table);

  std::string html = fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
      "<meta name='viewport' content='width=device-width, "
      "initial-scale=1'><title>{}</title><style>{}</style></head>"
      "<body><main>\n",
      safe(report.title), kReportStyle);
  html += head(report) + cards(groups);
  html += section("Curves", curves(report));
  html += section("Results", benchmarks(groups));
  html += section("Where the time of a step goes", stages(groups, stage_names));
  html += section("Share of what the hardware can do, measured in the same run", shares(report));
  html += section("Published figures", published);
  html += section("Runs", runs(report));
  return html + "</main></body></html>\n";
}

}  // namespace emblem
