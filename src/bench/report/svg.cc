#include "bench/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/result/result_table.h"
#include "core/text/text.h"

namespace emblem {

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
  // In a narrower range, adjacent ticks would be the same double.
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
