#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report/groups.h"
#include "bench/report/history_charts.h"
#include "bench/report/report.h"
#include "bench/report/sweeps.h"
#include "bench/report/verdicts.h"
#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Escapes "|", which ends a cell, and "<", which begins HTML.
std::string escape_markdown(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '`' || c == '*' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += cat(" ", escape_markdown(cell), " |");
  return line + "\n";
}

// The first `text_columns` columns are left-aligned, the others right-aligned.
std::string heading(const std::vector<std::string>& cells, size_t text_columns) {
  std::string line = row(cells) + "|";
  for (size_t c = 0; c < cells.size(); ++c) line += c < text_columns ? "---|" : "---:|";
  return line + "\n";
}

std::string results_section(const std::vector<ResultGroup>& groups,
                            const std::vector<BenchResult>& results) {
  const auto names = distinct_names(
      results, [](const auto& r) -> auto& { return r.metrics; });
  if (names.empty()) return "";
  std::vector<std::string> cells = {"benchmark", "name", "program"};
  for (const auto& name : names) cells.push_back(display_name(name));
  cells.push_back("times peer");
  std::string text = "\n## Results\n\n" + heading(cells, 3);
  for (const ResultGroup& group : groups) {
    for (const BenchResult* result : group.members) {
      cells = {result->benchmark, result->name, result->program};
      for (const auto& name : names) {
        const Measure* measure = find_named(result->metrics, name);
        cells.push_back(measure == nullptr ? "" : format_metric(measure->value, measure->unit));
      }
      cells.push_back(is_ours(*result) ? format_times(*result, group.peer()) : "");
      text += row(cells);
    }
  }
  return text;
}

std::string curves_section(const std::vector<BenchResult>& results) {
  std::string text;
  for (const BenchResult& result : results) {
    for (const auto& [name, series] : result.series) {
      if (series.empty()) continue;
      const auto limit = limit_of(result, name);
      text +=
          row({label_of(result), display_name(name), fmt::format("{}", series.size()),
               format_metric(series.front().second, ""), format_metric(series.back().second, ""),
               limit ? format_metric(*limit, "") : ""});
    }
  }
  if (text.empty()) return "";
  return "\n## Curves\n\n" + heading({"run", "series", "points", "first", "last", "limit"}, 2) +
         text;
}

std::string stages_section(const std::vector<BenchResult>& results) {
  std::string text;
  for (const BenchResult& result : results) {
    double total = 0;
    for (const auto& [name, seconds] : result.stages) total += seconds;
    for (const auto& [name, seconds] : result.stages)
      text += row({result.name, result.program, display_name(name), format_metric(seconds, "s"),
                   total > 0 ? fmt::format("{:.0f}%", 100 * seconds / total) : ""});
  }
  if (text.empty()) return "";
  return "\n## Time per step by stage\n\n" +
         heading({"name", "program", "stage", "time", "share"}, 3) + text;
}

std::string shares_section(const std::vector<BenchResult>& results) {
  std::string text;
  for (const BenchResult& result : results)
    for (const auto& [name, share] : result.shares)
      text += row({label_of(result), display_name(name), format_share(result, name, share)});
  if (text.empty()) return "";
  return "\n## Share of the hardware limit\n\n" + heading({"name", "limit", "reached"}, 2) + text;
}

std::string reference_section(const ReferenceTable& table) {
  std::string text = cat("\n## ", escape_markdown(table.title), "\n\n");
  if (!table.note.empty()) text += escape_markdown(table.note) + "\n\n";
  std::vector<std::string> cells = {"system", "hardware", "workload", "settings", "source"};
  for (const auto& [name, unit] : table.metrics) cells.push_back(display_name(name));
  text += heading(cells, 5);
  for (const ReferenceFigure& figure : table.figures) {
    cells = {figure.system, figure.hardware, figure.workload, figure.settings, figure.source};
    for (const auto& [name, unit] : table.metrics) {
      const double* value = find_named(figure.values, name);
      cells.push_back(value == nullptr ? "" : format_metric(*value, unit));
    }
    text += row(cells);
  }
  return text;
}

std::string machines_section(const std::vector<BenchResult>& results) {
  std::vector<std::string> lines;
  for (const BenchResult& result : results) {
    const std::string line = row({result.machine.cpu, fmt::format("{}", result.machine.cores),
                                  result.machine.gpu, result.machine.compiler});
    if (!result.machine.cpu.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(line);
  }
  if (lines.empty()) return "";
  std::string text = cat("\n", heading({"CPU", "cores", "GPU", "compiler"}, 4));
  for (const std::string& line : lines) text += line;
  return text;
}

std::string advice_section(const std::vector<BenchResult>& results) {
  std::string text;
  for (const Advice& advice : advice_of(results))
    text += cat("- ", escape_markdown(advice.of), ": ", escape_markdown(advice.text), "\n");
  return text.empty() ? "" : "\n## Recommendations\n\n" + text;
}

std::string verdicts_section(const std::vector<BenchResult>& results) {
  std::string text;
  for (const VerdictBlock& block : verdict_blocks(results)) {
    text += cat("\n### ", escape_markdown(block.name), ": ", escape_markdown(block.verdict), "\n\n",
                escape_markdown(block.runs), block.reason.empty() ? "" : ": ",
                escape_markdown(block.reason), "\n");
    for (const std::string& failure : block.failures)
      text += cat("- ", escape_markdown(failure), "\n");
    if (block.rows.empty()) continue;
    text += cat("\n", heading({"metric", "measured", "baseline", "difference", "threshold"}, 1));
    for (const BaselineRow& line : block.rows)
      text += row({line.metric, line.measured, line.baseline, line.difference, line.margin});
  }
  return text.empty() ? "" : "\n## Baselines and verdicts\n" + text;
}

std::string changes_section(const Report& report) {
  std::string text;
  for (const ChangeRow& change : change_rows(report.before, report.results))
    text += row({cat(change.benchmark, " ", change.name), change.metric, change.before,
                 change.after, change.change});
  if (text.empty()) return "";
  return "\n## Before and after\n\n" + heading({"name", "metric", "before", "after", "change"}, 2) +
         text;
}

std::string history_section(const std::vector<HistoryEntry>& history) {
  std::string text;
  for (const LineChart& chart : trend_charts(history))
    for (const ChartLine& line : chart.lines)
      text += row({line.name, chart.title, fmt::format("{}", line.points.size()),
                   format_metric(line.points.front().second, chart.y.unit),
                   format_metric(line.points.back().second, chart.y.unit)});
  if (text.empty()) return "";
  return "\n## History\n\n" + heading({"name", "metric", "entries", "first", "last"}, 2) + text;
}

std::string sweeps_section(const std::vector<BenchResult>& results) {
  std::string text;
  for (const SweepMap& sweep : sweep_maps(results)) {
    std::vector<std::string> cells = {cat(sweep.map.y_label, " / ", sweep.map.x_label)};
    cells.insert(cells.end(), sweep.map.columns.begin(), sweep.map.columns.end());
    text += cat("\n", escape_markdown(sweep.caption), "\n\n", heading(cells, 1));
    for (size_t r = 0; r < sweep.map.rows.size(); ++r) {
      cells = {sweep.map.rows[r]};
      for (const auto& value : sweep.map.values[r])
        cells.push_back(value ? format_metric(*value, sweep.map.unit) : "");
      text += row(cells);
    }
  }
  return text.empty() ? "" : "\n## Sweeps\n" + text;
}

}  // namespace

std::string report_markdown(const Report& report) {
  std::string text = cat("# ", escape_markdown(report.title), "\n");
  text += machines_section(report.results);
  text += advice_section(report.results);
  text += verdicts_section(report.results);
  text += changes_section(report);
  text += history_section(report.history);
  text += sweeps_section(report.results);
  text += results_section(group_results(report.results), report.results);
  text += curves_section(report.results);
  text += stages_section(report.results);
  text += shares_section(report.results);
  for (const ReferenceTable& table : report.references) text += reference_section(table);
  return text;
}

}  // namespace emblem
