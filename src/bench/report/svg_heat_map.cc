#include "bench/report/svg_heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report/svg.h"
#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr double kWidth = 460, kTop = 24, kBottom = 44, kCellHeight = 34, kLetter = 8.2;

struct Extremes {
  double worst = 0, best = 0;

  double goodness(double value) const {  // 0 to 1
    return best == worst ? 1 : (value - worst) / (best - worst);
  }
};

std::optional<Extremes> extremes_of(const HeatMap& map) {
  std::optional<Extremes> found;
  const bool higher = map.better == Better::kHigher;
  for (const auto& row : map.values)
    for (const auto& value : row) {
      if (!value || !std::isfinite(*value)) continue;
      if (!found) found = Extremes{*value, *value};
      found->best = higher ? std::max(found->best, *value) : std::min(found->best, *value);
      found->worst = higher ? std::min(found->worst, *value) : std::max(found->worst, *value);
    }
  return found;
}

// "1.4 M" of "1.42 M samples/s": the unit is in the caption.
std::string cell_text(double value, const std::string& unit) {
  if (unit == "s" || unit == "B" || unit == "%") return format_metric(value, unit);
  std::string text = format_metric(value, unit);
  if (!unit.empty() && text.ends_with(unit)) text.resize(text.size() - unit.size());
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string cell(const HeatMap& map, const Extremes& extremes, double value, double x, double y,
                 double width) {
  const double goodness = extremes.goodness(value);
  const double opacity = 0.08 + 0.84 * goodness;
  std::string svg = fmt::format(
      "<rect class='cell{}' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' rx='3' "
      "fill-opacity='{:.2f}'><title>{}</title></rect>",
      value == extremes.best ? " best" : "", x + 1.5, y + 1.5, width - 3, kCellHeight - 3, opacity,
      escape_markup(format_metric(value, map.unit)));
  return svg + fmt::format("<text class='{}' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>",
                           goodness > 0.7 ? "on-cell" : "in-cell", x + width / 2,
                           y + kCellHeight / 2 + 5, escape_markup(cell_text(value, map.unit)));
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  const std::optional<Extremes> extremes = extremes_of(map);
  if (!extremes || map.columns.empty()) return "";
  size_t longest = 2;
  for (const std::string& name : map.rows) longest = std::max(longest, name.size());
  const double left = std::min(16 + kLetter * static_cast<double>(longest), kWidth * 0.4);
  const double width = (kWidth - left) / static_cast<double>(map.columns.size());
  const double bottom = kTop + kCellHeight * static_cast<double>(map.rows.size());

  std::string svg = fmt::format(
      "<svg class='chart' viewBox='0 0 {} {:.0f}' role='img'><title>{}</title>"
      "<text class='axis' x='4' y='14'>{}</text>",
      kWidth, bottom + kBottom, escape_markup(map.title), escape_markup(map.y_label));
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = kTop + kCellHeight * static_cast<double>(r);
    svg += fmt::format("<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>",
                       left - 8, y + kCellHeight / 2 + 5, escape_markup(map.rows[r]));
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const std::optional<double>& value = map.values[r][c];
      if (value && std::isfinite(*value))
        svg += cell(map, *extremes, *value, left + width * static_cast<double>(c), y, width);
    }
  }
  for (size_t c = 0; c < map.columns.size(); ++c)
    svg += fmt::format("<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>",
                       left + width * (static_cast<double>(c) + 0.5), bottom + 17,
                       escape_markup(map.columns[c]));
  return svg + fmt::format("<text class='axis' x='{}' y='{:.1f}' text-anchor='end'>{}</text></svg>",
                           kWidth - 4, bottom + 37, escape_markup(map.x_label));
}

}  // namespace emblem
