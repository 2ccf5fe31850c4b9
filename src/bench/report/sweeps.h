// bench/report/sweeps.h - charts of a benchmark over several settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/report/svg_line_chart.h"
#include "bench/result/result.h"

namespace emblem {

// A heat map: a number over two settings. SVG as in bench/report/svg.h.
struct HeatMap {
  std::string title;  // read out by screen readers
  std::string x_label, y_label, unit;
  std::vector<std::string> columns, rows;
  std::vector<std::vector<std::optional<double>>> values;  // [rows][columns]; nullopt: not measured
  Better better = Better::kHigher;
};

// Better values are darker; the best cell has a frame. Empty if there are no values.
std::string heat_map(const HeatMap& map);

// Heat maps of the first metric over the two settings with the most values, for each program of a
// benchmark; one map per combination of the other settings. Settings are those that the results
// name as "axes", or else well-known ones (batch, dim, threads, workers, ...). Empty if fewer than
// two of them vary.
struct SweepMap {
  std::string caption;
  HeatMap map;
};
std::vector<SweepMap> sweep_maps(const std::vector<BenchResult>& results);

// Time over batch size on logarithmic axes: one chart per benchmark and metric of the time of a
// batch
// (..._p50, ..._p99, step_seconds), one line per name without its batch size. Empty if no line has
// three points.
std::vector<LineChart> batch_charts(const std::vector<BenchResult>& results);

}  // namespace emblem
