#include "bench/judge/suite_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/judge/suite_run.h"
#include "bench/result/result_table.h"
#include "bench/result/text_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kLogLines = 5;

const char* colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "\033[1;32m";  // green
    case Verdict::kWorse:
    case Verdict::kUnreliable:
      return "\033[1;31m";  // red
    case Verdict::kMixed:
      return "\033[1;33m";  // yellow
    default:
      return "\033[1m";
  }
}

std::string headline(const ConfigOutcome& outcome, Colour colour) {
  std::string verdict = to_text(outcome.verdict);
  if (colour == Colour::kAnsi) verdict = colour_of(outcome.verdict) + verdict + "\033[0m";
  std::string line = cat(verdict, "  ", outcome.config);
  if (!outcome.runs.empty()) {
    line += cat("  (", outcome.runs.size(), outcome.runs.size() == 1 ? " run" : " runs");
    if (outcome.failures() > 0) line += cat(", ", outcome.failures(), " failed");
    line += ")";
  }
  if (!outcome.reason.empty()) line += cat(": ", outcome.reason);
  return line + "\n";
}

std::string word_for(Change change) {
  switch (change) {
    case Change::kBetter:
      return "better";
    case Change::kWorse:
      return "worse";
    case Change::kBalanced:
      return "balanced";
    case Change::kMissing:
      return "missing";
    case Change::kNotCompared:
      return "";
  }
  return "";
}

// Six digits for metrics of quality, three for speed.
std::string number(double value, const std::string& unit) {
  return unit.empty() ? fmt::format("{:.6g}", value) : format_metric(value, unit);
}

std::vector<std::string> row_of(const MetricOutcome& metric) {
  const Measure& measure = metric.measure;
  const bool measured = !measure.samples.empty();
  std::vector<std::string> row = {"  " + metric.name};
  row.push_back(measured ? number(measure.value, measure.unit) : "-");
  row.push_back(measure.samples.size() > 1 ? number(measure.spread, measure.unit) : "-");
  row.push_back(measure.interval ? cat(number(measure.interval->low, measure.unit), " to ",
                                       number(measure.interval->high, measure.unit))
                                 : "-");
  row.push_back(metric.baseline ? cat(number(metric.baseline->value, measure.unit), " ± ",
                                      number(metric.baseline->margin(), measure.unit))
                                : "-");
  std::string verdict = word_for(metric.change);
  if (!metric.note.empty()) verdict += (verdict.empty() ? "" : ": ") + metric.note;
  row.push_back(verdict);
  return row;
}

std::string failed_runs(const ConfigOutcome& outcome) {
  std::string text;
  for (const SuiteRun& run : outcome.runs) {
    if (!run.failed()) continue;
    text += cat("  seed ", run.seed, " failed: ", run.failure, "\n    log: ", run.log, "\n");
    for (const std::string& line : last_lines(run.log, kLogLines)) text += "    | " + line + "\n";
  }
  return text;
}

std::string load_note(const ConfigOutcome& outcome) {
  double most = 0;
  for (const SuiteRun& run : outcome.runs) most = std::max(most, run.other_load);
  constexpr double kWorthSaying = 0.1;
  if (most < kWorthSaying) return "";
  return fmt::format(
      "  Other processes used up to {:.0f} % of the CPU time; thresholds of speed are relaxed.\n",
      100 * most);
}

}  // namespace

std::string suite_text(const std::vector<ConfigOutcome>& outcomes, Colour colour) {
  std::string text;
  for (const ConfigOutcome& outcome : outcomes) {
    text += cat(text.empty() ? "" : "\n", headline(outcome, colour));
    std::vector<std::vector<std::string>> rows = {
        {"  metric", "mean", "std dev", "95 % interval", "baseline", "verdict"}};
    for (const MetricOutcome& metric : outcome.metrics) rows.push_back(row_of(metric));
    if (rows.size() > 1) text += align_columns(rows);
    text += load_note(outcome) + failed_runs(outcome);
  }
  return text;
}

std::string suite_summary(const std::vector<ConfigOutcome>& outcomes) {
  std::map<std::string, int> counts;
  for (const ConfigOutcome& outcome : outcomes) ++counts[to_text(outcome.verdict)];
  std::string text = cat(outcomes.size(), outcomes.size() == 1 ? " pipeline: " : " pipelines: ");
  bool first = true;
  for (const auto& [verdict, count] : counts) {
    text += cat(first ? "" : ", ", count, " ", verdict);
    first = false;
  }
  return text;
}

}  // namespace emblem
