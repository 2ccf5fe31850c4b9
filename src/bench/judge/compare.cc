#include "bench/judge/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// All repetitions of one benchmark and name.
Named<Measure> pooled(const std::vector<BenchResult>& results, const BenchResult& like) {
  Named<Measure> metrics;
  for (const BenchResult& result : results) {
    if (result.benchmark != like.benchmark || result.name != like.name) continue;
    for (const auto& [name, measure] : result.metrics) {
      auto at = std::find_if(metrics.begin(), metrics.end(),
                             [&, &key = name](auto& item) { return item.first == key; });
      if (at == metrics.end()) at = metrics.insert(metrics.end(), {name, {}});
      Measure& to = at->second;
      to.unit = measure.unit;
      to.better = measure.better;
      if (measure.samples.empty())
        to.samples.push_back(measure.value);
      else
        to.samples.insert(to.samples.end(), measure.samples.begin(), measure.samples.end());
      to.value = mean_of(to.samples);
      to.spread = standard_deviation_of(to.samples);
    }
  }
  return metrics;
}

bool listed_before(const std::vector<BenchResult>& results, size_t at) {
  for (size_t i = 0; i < at; ++i)
    if (results[i].benchmark == results[at].benchmark && results[i].name == results[at].name)
      return true;
  return false;
}

void correct_for_many_tests(std::vector<MetricComparison>& comparisons) {
  std::vector<double> p_values;
  for (const MetricComparison& comparison : comparisons)
    if (comparison.test) p_values.push_back(comparison.test->p);
  const std::vector<double> adjusted = holm_adjusted(p_values);
  size_t next = 0;
  for (MetricComparison& comparison : comparisons)
    if (comparison.test) comparison.p = adjusted[next++];
}

std::string percent(double share) { return fmt::format("{:+.2f} %", 100 * share); }

std::string size_of(double effect) {
  const double size = std::abs(effect);
  const char* word = size < 0.2 ? "none" : size < 0.5 ? "small" : size < 0.8 ? "medium" : "large";
  return std::isinf(effect) ? "certain" : fmt::format("{:+.2f} {}", effect, word);
}

std::vector<std::string> row_of(const MetricComparison& comparison) {
  const double base = comparison.a.value;
  const auto of_base = [&](double difference) {
    return base == 0 ? fmt::format("{:+.4g}", difference) : percent(difference / std::abs(base));
  };
  std::vector<std::string> row = {"  " + comparison.metric, format_metric(base, comparison.a.unit),
                                  format_metric(comparison.b.value, comparison.b.unit),
                                  of_base(comparison.b.value - base)};
  if (!comparison.test) {
    row.insert(row.end(), {"-", "-", "-", "one run"});
    return row;
  }
  const Interval& interval = comparison.test->interval;
  row.push_back(cat(of_base(interval.low), " to ", of_base(interval.high)));
  row.push_back(fmt::format("{:.3g}", comparison.p));
  row.push_back(size_of(comparison.test->effect));
  row.push_back(comparison.better() ? "better" : comparison.worse() ? "WORSE" : "not significant");
  return row;
}

}  // namespace

bool MetricComparison::better() const {
  return significant() && (test->difference > 0) == (a.better == Better::kHigher);
}

bool MetricComparison::worse() const { return significant() && !better(); }

std::vector<MetricComparison> compare_results(const std::vector<BenchResult>& a,
                                              const std::vector<BenchResult>& b) {
  std::vector<MetricComparison> comparisons;
  for (size_t i = 0; i < a.size(); ++i) {
    if (listed_before(a, i)) continue;
    const Named<Measure> left = pooled(a, a[i]), right = pooled(b, a[i]);
    for (const auto& [metric, measure] : left) {
      const Measure* other = find_named(right, metric);
      if (other == nullptr) continue;
      comparisons.push_back({a[i].benchmark, a[i].name, metric, measure, *other,
                             test_means(measure.samples, other->samples)});
    }
  }
  EMBLEM_REQUIRE(!comparisons.empty(),
                 "bench compare: the files have no metric of equal benchmark and name in common; "
                 "compare results of the same benchmark with the same settings");
  correct_for_many_tests(comparisons);
  return comparisons;
}

std::string to_text(const std::vector<MetricComparison>& comparisons) {
  std::vector<std::vector<std::string>> rows = {
      {"metric", "A", "B", "change", "95 % interval", "p (Holm)", "Hedges' g", "verdict"}};
  std::string before;
  for (const MetricComparison& comparison : comparisons) {
    const std::string of = comparison.benchmark + " " + comparison.name;
    if (of != before) rows.push_back({before = of});
    rows.push_back(row_of(comparison));
  }
  return align_columns(rows);
}

}  // namespace emblem
