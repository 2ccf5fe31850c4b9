#include "bench/report/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr double kSignificant = 0.05;

std::string text_setting(const BenchResult& result, std::string_view name) {
  const Setting* setting = find_named(result.settings, name);
  return setting == nullptr ? "" : format_setting(*setting);
}

std::optional<double> number_setting(const BenchResult& result, const std::string& name) {
  const Setting* setting = find_named(result.settings, name);
  if (setting == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(setting)) return *number;
  if (const auto* whole = std::get_if<int64_t>(setting)) return static_cast<double>(*whole);
  return std::nullopt;
}

Tone tone_of(const std::string& verdict) {
  if (verdict == "BETTER") return Tone::kGood;
  return verdict == "WORSE" || verdict == "UNRELIABLE" ? Tone::kBad : Tone::kNeutral;
}

// "0.7997 ± 0.0004", "15.5 k samples/s ± 2.1%"
std::string with_interval(const Measure& measure) {
  const std::string text = format_metric(measure.value, measure.unit);
  if (!measure.interval || !std::isfinite(measure.interval->high)) return text;
  const double half = (measure.interval->high - measure.interval->low) / 2;
  if (measure.unit.empty()) return cat(text, " ± ", format_metric(half, ""));
  return fmt::format("{} ± {:.2g}%", text, 100 * half / std::abs(measure.value));
}

BaselineRow baseline_row(const BenchResult& result, const std::string& name,
                         const Measure& measure) {
  BaselineRow row;
  row.metric = display_name(name);
  row.measured = with_interval(measure);
  const auto baseline = number_setting(result, "baseline_" + name);
  if (!baseline) return row;
  row.baseline = format_metric(*baseline, measure.unit);
  const double difference = measure.value - *baseline;
  row.difference =
      cat(difference < 0 ? "−" : "+", format_metric(std::abs(difference), measure.unit));
  const auto margin = number_setting(result, "margin_" + name);
  if (!margin) return row;
  row.margin = format_metric(*margin, measure.unit);
  if (std::abs(difference) >= *margin && difference != 0)
    row.tone = (difference > 0) == (measure.better == Better::kHigher) ? Tone::kGood : Tone::kBad;
  return row;
}

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

const BenchResult* find_same(const std::vector<BenchResult>& results, const BenchResult& as) {
  for (const BenchResult& result : results)
    if (result.benchmark == as.benchmark && result.name == as.name &&
        first_word(result.program) == first_word(as.program))
      return &result;
  return nullptr;
}

ChangeRow change_row(const BenchResult& result, const std::string& name, const Measure& before,
                     const Measure& after) {
  ChangeRow row{result.benchmark,
                result.name,
                display_name(name),
                format_metric(before.value, before.unit),
                format_metric(after.value, after.unit),
                "the same",
                Tone::kNeutral,
                1};
  const double times = times_better(after, before);
  if (!(times > 0)) {
    row.change = "";
    return row;
  }
  row.times = times;
  if (std::abs(times - 1) < 0.0005) return row;
  const double percent = 100 * std::abs(times - 1);
  const char* const direction = times > 1 ? "better" : "worse";
  row.change = times >= 2 || times <= 0.5
                   ? fmt::format("{:.2f}x {}", times > 1 ? times : 1 / times, direction)
                   : fmt::format("{:.2g} % {}", percent, direction);
  const double spread = before.spread + after.spread;
  if (const auto test = test_means(before.samples, after.samples)) {
    row.p = test->p;
  } else if (std::abs(after.value - before.value) <= spread) {
    row.change += ", within the spread";
    return row;
  } else if (!(spread > 0)) {
    return row;  // measured once: significance unknown
  }
  row.tone = times > 1 ? Tone::kGood : Tone::kBad;
  return row;
}

// Holm's correction over all tests.
void correct_for_many_tests(std::vector<ChangeRow>& rows) {
  std::vector<double> p_values;
  for (const ChangeRow& row : rows)
    if (row.p) p_values.push_back(*row.p);
  const std::vector<double> corrected = holm_adjusted(p_values);
  size_t next = 0;
  for (ChangeRow& row : rows) {
    if (!row.p) continue;
    row.p = corrected[next++];
    if (*row.p < kSignificant) {
      row.change += *row.p < 0.001 ? ", p < 0.001" : fmt::format(", p = {:.2g}", *row.p);
    } else {
      row.tone = Tone::kNeutral;
      row.change += ", not significant";
    }
  }
}

}  // namespace

std::vector<VerdictBlock> verdict_blocks(const std::vector<BenchResult>& results) {
  std::vector<VerdictBlock> blocks;
  for (const BenchResult& result : results) {
    VerdictBlock block;
    block.verdict = text_setting(result, "verdict");
    if (block.verdict.empty()) continue;
    block.name = result.name;
    block.tone = tone_of(block.verdict);
    if (const auto runs = number_setting(result, "runs"))
      block.runs = fmt::format("{:g} {}", *runs, *runs == 1 ? "run" : "runs");
    if (const auto failed = number_setting(result, "failed"); failed && *failed > 0)
      block.runs += fmt::format(", {:g} failed", *failed);
    block.reason = text_setting(result, "reason");
    if (const Setting* failures = find_named(result.settings, "failures"))
      if (const auto* list = std::get_if<std::vector<std::string>>(failures))
        block.failures = *list;
    for (const auto& [name, measure] : result.metrics)
      block.rows.push_back(baseline_row(result, name, measure));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<ChangeRow> change_rows(const std::vector<BenchResult>& before,
                                   const std::vector<BenchResult>& after) {
  std::vector<ChangeRow> rows;
  for (const BenchResult& result : after) {
    const BenchResult* const earlier = find_same(before, result);
    if (earlier == nullptr) continue;
    for (const auto& [name, measure] : result.metrics)
      if (const Measure* other = find_named(earlier->metrics, name))
        rows.push_back(change_row(result, name, *other, measure));
  }
  correct_for_many_tests(rows);
  return rows;
}

std::vector<Advice> advice_of(const std::vector<BenchResult>& results) {
  std::vector<Advice> found;
  for (const BenchResult& result : results)
    if (const std::string text = text_setting(result, "advice"); !text.empty())
      found.push_back({cat(result.benchmark, " ", result.name), text});
  return found;
}

}  // namespace emblem
