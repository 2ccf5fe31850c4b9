#include "bench/result/result_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Columns of text on a terminal, not bytes: UTF-8 continuation bytes take no room.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Three significant digits and an SI prefix: "3.21 GB/s", but "107 k samples/s".
std::string with_prefix(double value, std::string_view unit) {
  static constexpr std::array kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size(); ++prefix) value /= 1000;
  const int digits = std::abs(value) >= 99.95 || (prefix == 0 && value == std::floor(value)) ? 0
                     : std::abs(value) >= 9.995                                              ? 1
                                                                                             : 2;
  const char* const gap =
      prefix == 0 || unit.starts_with("B") || unit.starts_with("FLOP") ? "" : " ";
  return fmt::format("{:.{}f} {}{}{}", value, digits, kPrefixes[prefix], gap, unit);
}

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 99.95) return format_duration(seconds);
  if (size >= 0.9995) return fmt::format("{:.3g} s", seconds);
  if (size >= 0.9995e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

bool is_rate_or_size(std::string_view unit) {
  return unit.ends_with("/s") || unit == "B" || unit == "rows" || unit == "samples" ||
         unit == "steps";
}

std::string metric_with_spread(const Measure& metric) {
  std::string text = format_metric(metric.value, metric.unit);
  if (metric.spread > 0 && metric.value != 0)
    text += fmt::format(" ±{:.2g}%", 100 * metric.spread / std::abs(metric.value));
  return text;
}

// The metrics' names of all results, in order of first appearance.
std::vector<std::string> metric_names(const std::vector<BenchResult>& results) {
  std::vector<std::string> names;
  for (const BenchResult& result : results)
    for (const auto& [name, metric] : result.metrics)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::string best_share(const BenchResult& result) {
  const auto best =
      std::max_element(result.shares.begin(), result.shares.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == result.shares.end()
             ? ""
             : fmt::format("{} {:.0f}%", spoken(best->first), 100 * best->second);
}

}  // namespace

std::string align_columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string room(widths[c] - width_of(row[c]), ' ');
      if (c > 0) line += "  ";
      line += c == 0 ? row[c] + room : room + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string results_table(const std::vector<BenchResult>& results,
                          std::string_view baseline_program) {
  const std::vector<std::string> names = metric_names(results);
  const bool any_share =
      std::any_of(results.begin(), results.end(), [](const auto& r) { return !r.shares.empty(); });
  const bool any_baseline =
      !baseline_program.empty() && std::any_of(results.begin(), results.end(), [&](const auto& r) {
        return r.program.starts_with(baseline_program);
      });

  std::vector<std::vector<std::string>> rows(1);
  for (const char* column : {"benchmark", "program"}) rows[0].emplace_back(column);
  for (const auto& name : names) rows[0].push_back(spoken(name));
  if (any_share) rows[0].emplace_back("best share of ceiling");
  if (any_baseline) rows[0].push_back(cat("times ", baseline_program));

  for (const BenchResult& result : results) {
    std::vector<std::string> row = {cat(result.benchmark, " ", result.name), result.program};
    for (const auto& name : names) {
      const Measure* metric = find_named(result.metrics, name);
      row.push_back(metric == nullptr ? "" : metric_with_spread(*metric));
    }
    if (any_share) row.push_back(best_share(result));
    if (any_baseline)
      row.push_back(format_times(result, find_counterpart(results, result, baseline_program)));
    rows.push_back(std::move(row));
  }
  return align_columns(rows);
}

std::string format_times(const BenchResult& result, const BenchResult* baseline) {
  if (baseline == nullptr || result.metrics.empty()) return "";
  const auto& [name, metric] = result.metrics.front();
  const Measure* other = find_named(baseline->metrics, name);
  const double times = other == nullptr ? 0 : times_better(metric, *other);
  return times > 0 ? fmt::format("{:.2f}x", times) : "";
}

const BenchResult* find_counterpart(const std::vector<BenchResult>& results, const BenchResult& of,
                                    std::string_view program) {
  for (const BenchResult& result : results)
    if (result.benchmark == of.benchmark && result.name == of.name &&
        result.program.starts_with(program))
      return &result;
  return nullptr;
}

double times_better(const Measure& value, const Measure& baseline) {
  if (!(value.value > 0) || !(baseline.value > 0)) return 0;
  return value.better == Better::kHigher ? value.value / baseline.value
                                         : baseline.value / value.value;
}

std::string format_metric(double value, std::string_view unit) {
  if (!std::isfinite(value)) return "not a number";
  if (unit == "s") return format_seconds(value);
  if (unit == "%") return fmt::format("{:.3g}%", value);
  if (unit == "B") return format_bytes(value);
  if (is_rate_or_size(unit)) return with_prefix(value, unit);
  // AUC, log loss and their like differ in the fourth digit.
  const std::string number = std::abs(value) < 10 && value != std::floor(value)
                                 ? fmt::format("{:.4f}", value)
                             : std::abs(value) < 1e6 ? fmt::format("{:.6g}", value)
                                                     : with_prefix(value, "");
  return unit.empty() ? std::string(trim(number)) : cat(trim(number), " ", unit);
}

std::string format_setting(const Setting& setting) {
  if (const auto* flag = std::get_if<bool>(&setting)) return *flag ? "yes" : "no";
  if (const auto* number = std::get_if<int64_t>(&setting)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&setting)) return fmt::format("{:.6g}", *number);
  if (const auto* text = std::get_if<std::string>(&setting)) return *text;
  std::string all;
  for (const auto& item : std::get<std::vector<std::string>>(setting))
    all += (all.empty() ? "" : ", ") + item;
  return all;
}

std::string spoken(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace emblem
