#include "bench/report/svg_line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report/svg.h"
#include "bench/result/result_table.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// The size of a chart in SVG units: small, so that text stays readable when scaled down on a phone.
constexpr double kWidth = 460, kHeight = 262;
constexpr double kLeft = 60, kRight = 16, kTop = 30, kBottom = 44;
constexpr size_t kMostPoints = 500;
constexpr size_t kNoisyPoints = 60;  // from here on a running mean is drawn
constexpr size_t kMostXLabels = 7;   // more would overlap

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

bool drawable(const ChartAxis& axis, double value) {
  return std::isfinite(value) && (axis.scale == AxisScale::kLinear || value > 0);
}

bool drawable(const LineChart& chart, const std::pair<double, double>& point) {
  return drawable(chart.x, point.first) && drawable(chart.y, point.second);
}

// The vertical range of a long line excludes 1 % of the values at either end, so that outliers do
// not flatten the rest.
void include_values(const LineChart& chart, const Series& points, Range& range) {
  std::vector<double> values;
  for (const auto& point : points)
    if (drawable(chart, point)) values.push_back(point.second);
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const size_t cut = values.size() >= 200 ? values.size() / 100 : 0;
  range.include(values[cut]);
  range.include(values[values.size() - 1 - cut]);
}

struct Mark {
  double at = 0;
  std::string text;
};

// The layout of an axis: its scale and its tick labels.
struct Layout {
  LinearScale scale;
  bool logarithmic = false;
  std::vector<Mark> marks;

  double operator()(double value) const { return scale(logarithmic ? std::log10(value) : value); }
};

std::string mark_text(const ChartAxis& axis, double value, double step) {
  // Times and bytes have their unit at each tick; other units are in the axis label.
  if (axis.unit == "s" && value != 0) return format_metric(value, "s");
  if (axis.unit == "B" && value != 0) return format_metric(value, "B");
  return format_tick(value, step);
}

// 1, 10, 100, ...; with 2 and 5 in between if there are few.
std::vector<Mark> log_marks(const ChartAxis& axis, const Range& range) {
  std::vector<Mark> marks;
  const bool few = range.high / range.low < 100;
  for (double power = std::pow(10, std::floor(std::log10(range.low))); power <= range.high * 1.0001;
       power *= 10)
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double at = power * digit;
      if ((digit == 1 || few) && at >= range.low * 0.9999 && at <= range.high * 1.0001)
        marks.push_back({at, mark_text(axis, at, at)});
    }
  return marks;
}

Layout lay_out(const ChartAxis& axis, Range range, double from, double to, int wanted) {
  Layout layout;
  if (axis.scale == AxisScale::kLog) {
    layout.logarithmic = true;
    if (range.high / range.low < 1.2) range = {range.low / 1.5, range.high * 1.5};
    layout.scale = {std::log10(range.low), std::log10(range.high), from, to};
    layout.marks = log_marks(axis, range);
    return layout;
  }
  const Ticks ticks = round_ticks(range.low, range.high, wanted);
  layout.scale = {ticks.low_end, ticks.high_end, from, to};
  for (const double at : ticks.at) layout.marks.push_back({at, mark_text(axis, at, ticks.step)});
  return layout;
}

// Every n-th of them, at most `most`, including the last.
std::vector<Mark> thinned(const std::vector<Mark>& marks, size_t most) {
  const size_t step = (marks.size() + most - 1) / std::max<size_t>(most, 1);
  std::vector<Mark> some;
  for (size_t i = 0; i < marks.size(); ++i)
    if ((marks.size() - 1 - i) % std::max<size_t>(step, 1) == 0) some.push_back(marks[i]);
  return some;
}

// The x axis: names, or the values themselves if a logarithmic axis has few of them.
Layout lay_out_x(const LineChart& chart, const Range& range) {
  Layout layout = lay_out(chart.x, range, kLeft + 10, kWidth - kRight - 10, 5);
  std::vector<Mark> marks;
  if (!chart.x.names.empty()) {
    for (size_t i = 0; i < chart.x.names.size(); ++i)
      marks.push_back({static_cast<double>(i), chart.x.names[i]});
    size_t longest = 1;
    for (const Mark& mark : marks) longest = std::max(longest, mark.text.size());
    layout.marks = thinned(marks, std::clamp<size_t>(44 / longest, 1, kMostXLabels));
  } else if (chart.x.scale == AxisScale::kLog) {
    std::vector<double> values;
    for (const ChartLine& line : chart.lines)
      for (const auto& point : line.points)
        if (drawable(chart, point)) values.push_back(point.first);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const double value : values) marks.push_back({value, format_tick(value, 1)});
    if (marks.size() <= 12) layout.marks = thinned(marks, kMostXLabels);
  }
  return layout;
}

struct Plot {
  const LineChart& chart;
  Layout x, y;

  double height(double value) const { return std::clamp(y(value), kTop, kHeight - kBottom); }
};

std::string path_of(const Series& points, const Plot& plot) {
  std::string path;
  bool pen_down = false;
  for (const auto& point : points) {
    if (!drawable(plot.chart, point)) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", plot.x(point.first),
                        plot.height(point.second));
    pen_down = true;
  }
  return path;
}

std::string label_of(const ChartAxis& axis) {
  const bool in_marks = axis.unit.empty() || axis.unit == "s" || axis.unit == "B";
  return in_marks ? axis.label : cat(axis.label, ", ", axis.unit);
}

std::string grid(const Plot& plot) {
  std::string svg;
  for (const Mark& mark : plot.y.marks) {
    svg += fmt::format("<line class='grid' x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}'/>", kLeft,
                       kWidth - kRight, plot.y(mark.at));
    svg += fmt::format("<text class='axis' x='{}' y='{:.1f}' text-anchor='end'>{}</text>",
                       kLeft - 6, plot.y(mark.at) + 4, escape_markup(mark.text));
  }
  const double floor = kHeight - kBottom;
  svg += fmt::format("<line class='base' x1='{0}' x2='{1}' y1='{2}' y2='{2}'/>", kLeft,
                     kWidth - kRight, floor);
  for (const Mark& mark : plot.x.marks) {
    svg += fmt::format("<line class='base' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'/>",
                       plot.x(mark.at), floor, floor + 4);
    svg += fmt::format("<text class='axis' x='{:.1f}' y='{}' text-anchor='middle'>{}</text>",
                       plot.x(mark.at), floor + 18, escape_markup(mark.text));
  }
  svg += fmt::format("<text class='axis' x='4' y='14'>{}</text>",
                     escape_markup(label_of(plot.chart.y)));
  return svg + fmt::format("<text class='axis' x='{}' y='{}' text-anchor='end'>{}</text>",
                           kWidth - kRight, kHeight - 6, escape_markup(label_of(plot.chart.x)));
}

std::string draw_line(const ChartLine& line, const Plot& plot) {
  const int color = line.color % kChartColors;
  const bool noisy = line.points.size() >= kNoisyPoints;
  std::string svg;
  if (noisy)
    svg += fmt::format("<path class='line faint s{}' d='{}'/>", color,
                       path_of(thin_out(line.points, kMostPoints), plot));
  const Series main = noisy ? smoothed(line.points, line.points.size() / 20) : line.points;
  svg += fmt::format("<path class='line s{}' d='{}'><title>{}</title></path>", color,
                     path_of(thin_out(main, kMostPoints), plot), escape_markup(line.name));
  // A dot at the end; on short lines at every point, so that single points are visible.
  const bool all_dots = main.size() <= 20;
  for (size_t i = all_dots ? 0 : main.size() - 1; i < main.size(); ++i) {
    if (!drawable(plot.chart, main[i])) continue;
    svg += fmt::format(
        "<circle class='dot s{}' cx='{:.1f}' cy='{:.1f}' r='{}'><title>{}: {}, {}</title></circle>",
        color, plot.x(main[i].first), plot.height(main[i].second), i + 1 == main.size() ? 3.5 : 2.5,
        escape_markup(line.name), format_count(main[i].first),
        format_metric(main[i].second, plot.chart.y.unit));
  }
  return svg;
}

std::string draw_limit(const Plot& plot) {
  const double at = plot.y(*plot.chart.limit);
  // The text is on the left, where curves are far from the limit; below the line if that is
  // near the top.
  const double text_at = at < kTop + 20 ? at + 16 : at - 6;
  return fmt::format("<line class='limit' x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}'/>", kLeft,
                     kWidth - kRight, at) +
         fmt::format("<text class='limit-name' x='{}' y='{:.1f}'>{} {}</text>", kLeft + 6, text_at,
                     escape_markup(plot.chart.limit_name),
                     format_metric(*plot.chart.limit, plot.chart.y.unit));
}

// A margin above and below.
Range with_margin(const ChartAxis& axis, const Range& range) {
  if (axis.scale == AxisScale::kLog) {
    const double factor = std::pow(range.high / range.low, 0.06);
    return {range.low / factor, range.high * factor};
  }
  const double margin = (range.high - range.low) * 0.06;
  return {range.low - margin, range.high + margin};
}

}  // namespace

Series thin_out(const Series& series, size_t most) {
  if (series.size() <= std::max<size_t>(most, 4)) return series;
  const size_t buckets = std::max<size_t>(most, 4) / 2;
  Series out = {series.front()};
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const auto begin = series.begin() + static_cast<ptrdiff_t>(series.size() * bucket / buckets);
    const auto end =
        series.begin() + static_cast<ptrdiff_t>(series.size() * (bucket + 1) / buckets);
    // Comparisons with NaN are false: it is an extreme only if it comes first.
    const auto [low, high] = std::minmax_element(begin, end, [](const auto& a, const auto& b) {
      return a.second < b.second || (std::isnan(b.second) && !std::isnan(a.second));
    });
    out.push_back(std::min(low, high)[0]);
    if (low != high) out.push_back(std::max(low, high)[0]);
  }
  if (out.back() != series.back()) out.push_back(series.back());
  return out;
}

Series smoothed(const Series& series, size_t span) {
  Series out;
  out.reserve(series.size());
  const size_t half = span / 2;
  double sum = 0;
  size_t count = 0, begin = 0, end = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    for (; end < series.size() && end <= i + half; ++end)
      if (std::isfinite(series[end].second)) sum += series[end].second, ++count;
    for (; begin + half < i; ++begin)
      if (std::isfinite(series[begin].second)) sum -= series[begin].second, --count;
    if (count > 0) out.emplace_back(series[i].first, sum / static_cast<double>(count));
  }
  return out;
}

std::string line_chart(const LineChart& chart) {
  Range steps, values;
  for (const ChartLine& line : chart.lines) {
    for (const auto& point : line.points)
      if (drawable(chart, point)) steps.include(point.first);
    include_values(chart, line.points, values);
  }
  if (steps.empty()) return "";
  const bool limited = chart.limit && drawable(chart.y, *chart.limit);
  if (limited) values.include(*chart.limit);
  const Plot plot = {chart, lay_out_x(chart, steps),
                     lay_out(chart.y, with_margin(chart.y, values), kHeight - kBottom, kTop, 5)};

  std::string svg =
      fmt::format("<svg class='chart' viewBox='0 0 {} {}' role='img'><title>{}</title>", kWidth,
                  kHeight, escape_markup(chart.title));
  svg += grid(plot);
  if (limited) svg += draw_limit(plot);
  for (const ChartLine& line : chart.lines) svg += draw_line(line, plot);
  return svg + "</svg>";
}

}  // namespace emblem
