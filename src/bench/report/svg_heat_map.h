// bench/report/svg_heat_map.h - a number over two settings, as coloured cells. Text as of
// bench/report/svg.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct HeatMap {
  std::string title;  // read out by screen readers
  std::string x_label, y_label, unit;
  std::vector<std::string> columns, rows;
  std::vector<std::vector<std::optional<double>>> values;  // [rows][columns]; none: not measured
  Better better = Better::kHigher;
};

// The better a value, the fuller its colour; the best has a frame. Empty without a value.
std::string heat_map(const HeatMap& map);

}  // namespace emblem
