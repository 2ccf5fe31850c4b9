// bench/report/svg_line_chart.h - lines over a number: a training's curves, latency over batch
// size, a history of results. Text as of bench/report/svg.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// At most about `most` points that look the same as all of them: the extremes of each stretch stay.
Series thin_out(const Series& series, size_t most);

// A running mean over `span` points that leaves out what is not a number.
Series smoothed(const Series& series, size_t span);

struct ChartLine {
  std::string name;
  Series points;
  int color = 0;
};

enum class AxisScale { kLinear, kLog };

// What stands along an axis. On a logarithmic one, values that are not above 0 are not drawn.
struct ChartAxis {
  std::string label;  // what is counted
  std::string unit;   // of result_table.h; ticks carry it
  AxisScale scale = AxisScale::kLinear;
  std::vector<std::string> names;  // of positions 0, 1, 2, ... where these are no numbers
};

struct LineChart {
  std::string title;  // read out by screen readers
  ChartAxis x, y;
  std::vector<ChartLine> lines;
  std::optional<double> limit;  // a horizontal line, with its name
  std::string limit_name;
};

// Long noisy lines are drawn faintly with their running mean on top. Empty when there is no point
// to draw.
std::string line_chart(const LineChart& chart);

}  // namespace emblem
