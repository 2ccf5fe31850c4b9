// bench/report/svg_heat_map.h - a heat map: a number over two settings. SVG as in
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
  std::vector<std::vector<std::optional<double>>> values;  // [rows][columns]; nullopt: not measured
  Better better = Better::kHigher;
};

// Better values are darker; the best cell has a frame. Empty if there are no values.
std::string heat_map(const HeatMap& map);

}  // namespace emblem
