// bench/report/svg.h - charts as inline SVG for an HTML page. Colours come from the style sheet of
// the page: classes s0 to s7 for series, .grid, .axis, .limit, .faint. No external resources.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

inline constexpr int kChartColors = 9;

// Escapes text for content and attribute values. Control characters become spaces.
std::string escape_markup(std::string_view text);

// Maps [from_low, from_high] to [to_low, to_high]; an empty range maps to the middle.
struct LinearScale {
  double from_low = 0, from_high = 1, to_low = 0, to_high = 1;
  double operator()(double value) const;
};

// About `wanted` round positions (multiples of 1, 2 or 5 times a power of ten) in [low, high]. An
// empty or invalid range is widened first; low_end and high_end are the range that was used.
struct Ticks {
  std::vector<double> at;
  double step = 1;
  double low_end = 0, high_end = 1;
};
Ticks round_ticks(double low, double high, int wanted);

// A tick with as many digits as `step` needs: "0.25", "1500", "20k".
std::string format_tick(double value, double step);

struct BarPart {
  std::string name;
  double value = 0;
  int color = 0;
};

// A stacked horizontal bar; `full` is the value of the full width.
std::string stacked_bar(const std::vector<BarPart>& parts, double full, std::string_view title);

}  // namespace emblem
