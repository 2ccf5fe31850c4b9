#include "bench/result/result_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Width in terminal columns: UTF-8 continuation bytes have none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<size_t> widths_of(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (row.size() == 1 && rows.front().size() > 1) continue;  // a heading spans all columns
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  return widths;
}

constexpr std::string_view kGap = "  ";

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

// Tables show p50 and p99 of latencies and times; result files have all percentiles.
bool is_detail(const std::string& name, const Named<Measure>& all) {
  for (const std::string_view ending : {"_p10", "_p90", "_p95", "_p99.9", "_max", "_mean"})
    if (name == ending.substr(1) || name.ends_with(ending)) return true;
  return find_named(all, name + "_p50") != nullptr;
}

// The metrics' names of all results, in order of first appearance.
std::vector<std::string> metric_names(const std::vector<BenchResult>& results) {
  std::vector<std::string> names;
  for (const BenchResult& result : results)
    for (const auto& [name, metric] : result.metrics)
      if (std::find(names.begin(), names.end(), name) == names.end() &&
          !is_detail(name, result.metrics))
        names.push_back(name);
  return names;
}

template <class Field>
bool all_equal(const std::vector<BenchResult>& results, const Field& field) {
  return std::all_of(results.begin(), results.end(),
                     [&](const BenchResult& r) { return field(r) == field(results.front()); });
}

std::string best_share(const BenchResult& result) {
  const auto best =
      std::max_element(result.shares.begin(), result.shares.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == result.shares.end()
             ? ""
             : fmt::format("{} {:.0f}%", display_name(best->first), 100 * best->second);
}

}  // namespace

std::string align_columns(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<size_t> widths = widths_of(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string room(widths[c] - std::min(widths[c], width_of(row[c])), ' ');
      if (c > 0) line += kGap;
      line += c == 0 ? row[c] + room : room + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string fit_columns(std::vector<std::vector<std::string>> rows) {
  const std::vector<size_t> widths = widths_of(rows);
  size_t columns = 0;
  for (size_t used = 0; columns < widths.size(); ++columns) {
    used += widths[columns] + (columns > 0 ? kGap.size() : 0);
    if (columns > 1 && used > kTerminalColumns) break;
  }
  for (auto& row : rows) row.resize(std::min(row.size(), columns));
  return align_columns(rows);
}

std::string wrap_text(std::string_view head, std::string_view text, size_t indent) {
  std::string all, line(head);
  line.resize(std::max(indent, line.size()), ' ');
  bool is_first_word = true;
  for (const std::string& word : split(text, ' ')) {
    if (!is_first_word && width_of(line) + 1 + width_of(word) > kTerminalColumns) {
      all += line + "\n";
      line.assign(indent, ' ');
      is_first_word = true;
    }
    line += (is_first_word ? "" : " ") + word;
    is_first_word = false;
  }
  return all + line + "\n";
}

std::string results_table(const std::vector<BenchResult>& results,
                          std::string_view baseline_program) {
  if (results.empty()) return "";
  const std::vector<std::string> names = metric_names(results);
  const bool with_program = !all_equal(results, [](auto& r) { return r.program; });
  const bool with_kind = !all_equal(results, [](auto& r) { return r.benchmark; });
  const bool any_baseline =
      !baseline_program.empty() && std::any_of(results.begin(), results.end(), [&](const auto& r) {
        return r.program.starts_with(baseline_program);
      });

  // Columns in order of importance: the last ones are dropped when the table is too wide.
  std::vector<std::vector<std::string>> rows(1, {with_kind ? "benchmark" : results[0].benchmark});
  if (with_program) rows[0].push_back("program");
  for (const auto& name : names) {
    rows[0].push_back(display_name(name));
    if (any_baseline && &name == &names.front()) rows[0].push_back(cat("times ", baseline_program));
  }
  rows[0].push_back("best share of ceiling");

  for (const BenchResult& result : results) {
    std::vector<std::string> row = {with_kind ? cat(result.benchmark, " ", result.name)
                                              : result.name};
    if (with_program) row.push_back(result.program);
    for (const auto& name : names) {
      const Measure* metric = find_named(result.metrics, name);
      row.push_back(metric == nullptr ? "" : metric_with_spread(*metric));
      if (any_baseline && &name == &names.front())
        row.push_back(format_times(result, find_counterpart(results, result, baseline_program)));
    }
    row.push_back(best_share(result));
    rows.push_back(std::move(row));
  }
  return fit_columns(std::move(rows));
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
  // AUC, log loss and similar metrics differ in the fourth digit.
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
  return joined(std::get<std::vector<std::string>>(setting));
}

std::string display_name(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace emblem
