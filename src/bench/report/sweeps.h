// bench/report/sweeps.h - results of one benchmark under several settings, as charts.
#pragma once

#include <string>
#include <vector>

#include "bench/report/svg_heat_map.h"
#include "bench/report/svg_line_chart.h"
#include "bench/result/result.h"

namespace emblem {

// The first metric over the two settings with the most values, for each program of a benchmark; a
// map for each combination of the others. Settings are those that the results name as "axes", or
// else well-known ones (batch, dim, threads, workers, ...). None where less than two of them vary.
struct SweepMap {
  std::string caption;
  HeatMap map;
};
std::vector<SweepMap> sweep_maps(const std::vector<BenchResult>& results);

// Times over the batch size, both logarithmic: a chart for each benchmark and metric in seconds
// that stands for a batch (..._p50, ..._p99, step_seconds), a line for each name without its batch
// size. None where no line has three points.
std::vector<LineChart> batch_charts(const std::vector<BenchResult>& results);

}  // namespace emblem
