// bench/report/history_charts.h - charts of results over time (bench/result/history.h).
#pragma once

#include <string>
#include <vector>

#include "bench/report/svg_line_chart.h"
#include "bench/result/history.h"

namespace emblem {

// Whether the first line of a .jsonl file is a history entry.
bool is_history(const std::string& path);

// One chart per metric over the revisions in the order given; one line per name and, if there are
// several, environment, because results of different machines are not comparable. Empty with fewer
// than two entries.
std::vector<LineChart> trend_charts(const std::vector<HistoryEntry>& history);

}  // namespace emblem
