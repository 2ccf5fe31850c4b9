#include "bench/result/published_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/result/result_table.h"
#include "bench/result/text_table.h"

namespace emblem {

namespace {

std::string note_of(const ReferenceTable& table) {
  return table.note.empty() ? "" : wrap_text("", table.note, 0);
}

}  // namespace

std::vector<std::string> references_of(const std::vector<BenchResult>& results) {
  std::vector<std::string> names;
  for (const BenchResult& result : results) {
    const Setting* found = find_named(result.settings, "references");
    if (found == nullptr) continue;
    for (const std::string& name : std::get<std::vector<std::string>>(*found))
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string published_rows(const std::vector<BenchResult>& results, const ReferenceTable& table) {
  if (table.metrics.empty()) return "";
  const auto& [metric, unit] = table.metrics.front();
  const Measure* best = nullptr;
  for (const BenchResult& result : results) {
    const Measure* found = find_named(result.metrics, metric);
    if (found != nullptr && (best == nullptr || times_better(*found, *best) > 1)) best = found;
  }
  if (best == nullptr) return "";
  constexpr size_t kIndent = 30;
  std::string text, workload;
  for (const ReferenceFigure& figure : table.figures) {
    const double* theirs = find_named(figure.values, metric);
    if (theirs == nullptr) continue;
    if (figure.workload != workload) text += wrap_text("", workload = figure.workload, 0);
    const double times = times_better(*best, Measure{*theirs, unit, best->better});
    std::string who = figure.system + "; " + figure.hardware;
    if (!figure.settings.empty()) who += "; " + figure.settings;
    text += wrap_text(fmt::format("  {:>18} {:>7.2f}x", format_metric(*theirs, unit), times), who,
                      kIndent);
  }
  return text + note_of(table);
}

std::string published_latencies(const std::vector<BenchResult>& results,
                                const ReferenceTable& table) {
  std::vector<std::vector<std::string>> rows = {{"batch", "here", "published", "times", "by"}};
  for (const BenchResult& result : results) {
    const Measure* ours = find_named(result.metrics, "latency_p50");
    const Setting* batch = find_named(result.settings, "batch");
    if (ours == nullptr || batch == nullptr || result.name.ends_with("-stream")) continue;
    const std::string settings = fmt::format("batch {}", std::get<int64_t>(*batch));
    for (const ReferenceFigure& figure : table.figures) {
      const double* theirs = find_named(figure.values, "latency");
      if (theirs == nullptr || figure.settings != settings) continue;
      rows.push_back({settings.substr(6), format_metric(ours->value, "s"),
                      format_metric(*theirs, "s"), fmt::format("{:.2f}x", *theirs / ours->value),
                      figure.system + "; " + figure.hardware});
    }
  }
  if (rows.size() == 1) return "";
  return align_columns(rows) + note_of(table);
}

}  // namespace emblem
