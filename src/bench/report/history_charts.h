// bench/report/history_charts.h - how results went over time (bench/result/history.h), as charts.
#pragma once

#include <string>
#include <vector>

#include "bench/report/svg_line_chart.h"
#include "bench/result/history.h"

namespace emblem {

// Whether the first line of a .jsonl file is such an entry.
bool is_history(const std::string& path);

// A chart for each metric, over the revisions in the order given; a line for each name and, where
// there are several, environment: only figures of one machine compare. None with fewer than two
// entries.
std::vector<LineChart> trend_charts(const std::vector<HistoryEntry>& history);

}  // namespace emblem
