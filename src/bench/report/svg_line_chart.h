// bench/report/svg_line_chart.h - line charts: training curves, latency over batch size, history
// of results. SVG as in bench/report/svg.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// Downsamples to about `most` points, keeping the extremes of each interval.
Series thin_out(const Series& series, size_t most);

// A running mean over `span` points that ignores NaN.
Series smoothed(const Series& series, size_t span);

struct ChartLine {
  std::string name;
  Series points;
  int color = 0;
};

enum class AxisScale { kLinear, kLog };

// A logarithmic axis does not draw values of 0 or less.
struct ChartAxis {
  std::string label;  // name of the quantity
  std::string unit;   // as in result_table.h; shown at the ticks
  AxisScale scale = AxisScale::kLinear;
  std::vector<std::string> names;  // names of positions 0, 1, 2, ... on a categorical axis
};

struct LineChart {
  std::string title;  // read out by screen readers
  ChartAxis x, y;
  std::vector<ChartLine> lines;
  std::optional<double> limit;  // a horizontal line, with its name
  std::string limit_name;
};

// Long lines are drawn faintly with their running mean on top. Empty if there are no points.
std::string line_chart(const LineChart& chart);

}  // namespace emblem
