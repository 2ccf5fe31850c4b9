// bench/report_history.h - results over time, as suites append them to a file.
#pragma once

#include <string>
#include <vector>

#include "bench/result.h"
#include "bench/svg_line_chart.h"

namespace emblem {

// One line: {"date": "2026-11-15T10:00:00Z", "revision": "df7e7f6", "results": [...]}
struct HistoryEntry {
  std::string date, revision;
  std::vector<BenchResult> results;
};

// Whether the first line of a .jsonl file is such an entry.
bool is_history(const std::string& path);

// Throws Error that names the line.
std::vector<HistoryEntry> read_history(const std::string& path);

// A chart for each metric, a line for each benchmark and name, over the revisions in the order
// given. None with fewer than two entries.
std::vector<LineChart> trend_charts(const std::vector<HistoryEntry>& history);

}  // namespace emblem
