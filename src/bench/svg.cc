#include "bench/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/result_table.h"
#include "core/text.h"

namespace emblem {
namespace {

// One chart's size in its own units: small enough that its text can be read where a phone shrinks
// it.
constexpr double kWidth = 460, kHeight = 250;
constexpr double kLeft = 52, kRight = 14, kTop = 14, kBottom = 38;
constexpr size_t kMostPoints = 500;
constexpr size_t kNoisyPoints = 60;  // from here on a running mean helps the eye

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

bool drawable(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

// The vertical range leaves out the wildest hundredth at either end of a long line, lest one spike
// flatten the rest.
void include_values(const Series& points, Range& range) {
  std::vector<double> values;
  for (const auto& point : points)
    if (drawable(point)) values.push_back(point.second);
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const size_t cut = values.size() >= 200 ? values.size() / 100 : 0;
  range.include(values[cut]);
  range.include(values[values.size() - 1 - cut]);
}

std::string path_of(const Series& points, const LinearScale& x, const LinearScale& y) {
  std::string path;
  bool pen_down = false;
  for (const auto& point : points) {
    if (!drawable(point)) {
      pen_down = false;
      continue;
    }
    const double height = std::clamp(y(point.second), kTop, kHeight - kBottom);
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x(point.first), height);
    pen_down = true;
  }
  return path;
}

std::string grid(const Ticks& x_ticks, const Ticks& y_ticks, const LinearScale& x,
                 const LinearScale& y) {
  std::string svg;
  for (const double at : y_ticks.at) {
    svg += fmt::format("<line class='grid' x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}'/>", kLeft,
                       kWidth - kRight, y(at));
    svg += fmt::format("<text class='axis' x='{}' y='{:.1f}' text-anchor='end'>{}</text>",
                       kLeft - 6, y(at) + 4, format_tick(at, y_ticks.step));
  }
  const double floor = kHeight - kBottom;
  svg += fmt::format("<line class='base' x1='{0}' x2='{1}' y1='{2}' y2='{2}'/>", kLeft,
                     kWidth - kRight, floor);
  for (const double at : x_ticks.at) {
    svg += fmt::format("<line class='base' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'/>", x(at),
                       floor, floor + 4);
    svg += fmt::format("<text class='axis' x='{:.1f}' y='{}' text-anchor='middle'>{}</text>", x(at),
                       floor + 17, format_tick(at, x_ticks.step));
  }
  return svg;
}

std::string draw_line(const ChartLine& line, const LinearScale& x, const LinearScale& y) {
  const int color = line.color % kChartColors;
  const bool noisy = line.points.size() >= kNoisyPoints;
  std::string svg;
  if (noisy)
    svg += fmt::format("<path class='line faint s{}' d='{}'/>", color,
                       path_of(thin_out(line.points, kMostPoints), x, y));
  const Series main = noisy ? smoothed(line.points, line.points.size() / 20) : line.points;
  svg += fmt::format("<path class='line s{}' d='{}'><title>{}</title></path>", color,
                     path_of(thin_out(main, kMostPoints), x, y), escape_markup(line.name));
  // A dot at the end; on short lines at every point, so that a single one can be seen.
  const bool all_dots = main.size() <= 20;
  for (size_t i = all_dots ? 0 : main.size() - 1; i < main.size(); ++i) {
    if (!drawable(main[i])) continue;
    svg += fmt::format(
        "<circle class='dot s{}' cx='{:.1f}' cy='{:.1f}' r='{}'><title>{}: {}, {}</title></circle>",
        color, x(main[i].first), std::clamp(y(main[i].second), kTop, kHeight - kBottom),
        i + 1 == main.size() ? 3.5 : 2.5, escape_markup(line.name), format_count(main[i].first),
        format_metric(main[i].second, ""));
  }
  return svg;
}

std::string draw_limit(const LineChart& chart, const LinearScale& y) {
  const double at = y(*chart.limit);
  // On the left, where curves are far from their limit; below a line near the top.
  const double text_at = at < kTop + 20 ? at + 16 : at - 6;
  return fmt::format("<line class='limit' x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}'/>", kLeft,
                     kWidth - kRight, at) +
         fmt::format("<text class='limit-name' x='{}' y='{:.1f}'>{} {}</text>", kLeft + 6, text_at,
                     escape_markup(chart.limit_name), format_metric(*chart.limit, ""));
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

double LinearScale::operator()(double value) const {
  if (from_high == from_low) return (to_low + to_high) / 2;
  return to_low + (value - from_low) / (from_high - from_low) * (to_high - to_low);
}

Ticks round_ticks(double low, double high, int wanted) {
  if (!std::isfinite(low) || !std::isfinite(high)) low = 0, high = 1;
  if (low > high) std::swap(low, high);
  // Below this width neighbouring ticks would be the same double.
  const double least = std::max(std::abs(low), std::abs(high)) * 1e-9;
  if (high - low <= least) {
    const double half = low == 0 && high == 0 ? 0.5 : std::max(std::abs(low) * 0.05, least);
    low -= half;
    high += half;
  }
  Ticks ticks;
  ticks.low_end = low;
  ticks.high_end = high;
  const double raw = (high - low) / std::max(wanted, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double digit = raw / power;
  ticks.step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
  const double first = std::ceil(low / ticks.step - 1e-9),
               last = std::floor(high / ticks.step + 1e-9);
  for (double i = first; i <= last; ++i) ticks.at.push_back(i == 0 ? 0 : i * ticks.step);
  return ticks;
}

std::string format_tick(double value, double step) {
  if (step >= 1e6 || (std::abs(value) >= 1e6 && step >= 1e4))
    return value == 0 ? "0" : fmt::format("{:g}M", value / 1e6);
  if (step >= 1e3 || (std::abs(value) >= 1e4 && step >= 100))
    return value == 0 ? "0" : fmt::format("{:g}k", value / 1e3);
  if (step < 1e-4) return fmt::format("{:.3g}", value);
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, digits);
}

Series thin_out(const Series& series, size_t most) {
  if (series.size() <= std::max<size_t>(most, 4)) return series;
  const size_t buckets = std::max<size_t>(most, 4) / 2;
  Series out = {series.front()};
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const auto begin = series.begin() + static_cast<ptrdiff_t>(series.size() * bucket / buckets);
    const auto end =
        series.begin() + static_cast<ptrdiff_t>(series.size() * (bucket + 1) / buckets);
    // What is not a number compares as neither: it never becomes an extreme unless it comes first.
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
      if (drawable(point)) steps.include(point.first);
    include_values(line.points, values);
  }
  if (steps.empty()) return "";
  if (chart.limit) values.include(*chart.limit);
  const double margin = (values.high - values.low) * 0.06;
  const Ticks y_ticks = round_ticks(values.low - margin, values.high + margin, 5);
  const Ticks x_ticks = round_ticks(steps.low, steps.high, 5);
  const LinearScale x = {x_ticks.low_end, x_ticks.high_end, kLeft + 6, kWidth - kRight - 6};
  const LinearScale y = {y_ticks.low_end, y_ticks.high_end, kHeight - kBottom, kTop};

  std::string svg =
      fmt::format("<svg class='chart' viewBox='0 0 {} {}' role='img'><title>{}</title>", kWidth,
                  kHeight, escape_markup(chart.title));
  svg += grid(x_ticks, y_ticks, x, y);
  if (chart.limit && std::isfinite(*chart.limit)) svg += draw_limit(chart, y);
  for (const ChartLine& line : chart.lines) svg += draw_line(line, x, y);
  svg += fmt::format("<text class='axis' x='{}' y='{}' text-anchor='end'>{}</text></svg>",
                     kWidth - kRight, kHeight - 4, escape_markup(chart.x_label));
  return svg;
}

std::string stacked_bar(const std::vector<BarPart>& parts, double full, std::string_view title) {
  std::string svg = fmt::format(
      "<svg class='bar' viewBox='0 0 1000 10' preserveAspectRatio='none' "
      "role='img'><title>{}</title>"
      "<rect class='track' width='1000' height='10'/>",
      escape_markup(title));
  double at = 0;
  for (const BarPart& part : parts) {
    if (!(part.value > 0) || !(full > 0)) continue;
    const double width = std::min(part.value / full * 1000, 1000 - at);
    if (!(width > 0)) break;
    svg += fmt::format(
        "<rect class='fill s{}' x='{:.2f}' width='{:.2f}' height='10'><title>{}</title></rect>",
        part.color % kChartColors, at, width, escape_markup(part.name));
    at += width;
  }
  return svg + "</svg>";
}

}  // namespace emblem
