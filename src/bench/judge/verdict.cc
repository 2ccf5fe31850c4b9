#include "bench/judge/verdict.h"

#include <algorithm>
#include <cmath>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kRunsForAnInterval = 3;  // an interval of two runs is too wide to be useful
constexpr double kQuiet = 0.02;           // background load that is ignored

Measure summarize(const std::vector<SuiteRun>& runs, const std::string& name) {
  Measure measure;
  for (const SuiteRun& run : runs) {
    const Measure* of_run = run.failed() ? nullptr : find_named(run.metrics, name);
    if (of_run == nullptr || !std::isfinite(of_run->value)) continue;
    measure.unit = of_run->unit;
    measure.better = of_run->better;
    measure.samples.push_back(of_run->value);
  }
  if (measure.samples.empty()) return measure;
  measure.value = mean_of(measure.samples);
  measure.spread = standard_deviation_of(measure.samples);
  measure.interval = mean_interval(measure.samples);
  return measure;
}

// The names of all metrics: in the order of the runs, then those that only the baseline has.
std::vector<std::string> metric_names(const std::vector<SuiteRun>& runs, const Baseline* baseline) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const SuiteRun& run : runs)
    for (const auto& [name, measure] : run.metrics) add(name);
  if (baseline != nullptr)
    for (const auto& [name, metric] : baseline->metrics) add(name);
  return names;
}

double mean_load(const std::vector<SuiteRun>& runs) {
  double sum = 0;
  int64_t count = 0;
  for (const SuiteRun& run : runs) {
    if (run.failed()) continue;
    sum += run.other_load;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

// The worst mean that is not worse than the baseline.
double worst_allowed(const BaselineMetric& baseline, double slowdown) {
  return baseline.better == Better::kHigher ? (baseline.value - baseline.margin()) / slowdown
                                            : (baseline.value + baseline.margin()) * slowdown;
}

void compare(MetricOutcome& outcome, double slowdown) {
  const BaselineMetric& baseline = *outcome.baseline;
  const Measure& measure = outcome.measure;
  if (measure.samples.empty()) {
    outcome.change = Change::kMissing;
    outcome.note = "the runs do not report it";
    return;
  }
  const double sign = baseline.better == Better::kHigher ? 1 : -1;
  const double gain = sign * (measure.value - baseline.value);
  const bool beyond_worst = sign * (measure.value - worst_allowed(baseline, slowdown)) <= 0;
  outcome.change = Change::kBalanced;
  if (gain >= baseline.margin() && gain > 0) outcome.change = Change::kBetter;
  if (gain <= -baseline.margin() && gain < 0) {
    outcome.change = beyond_worst ? Change::kWorse : Change::kBalanced;
    if (!beyond_worst) outcome.note = "explained by the load of other processes";
  }
  const bool significant =
      measure.samples.size() < kRunsForAnInterval || !measure.interval->contains(baseline.value);
  if (outcome.change != Change::kBalanced && !significant) {
    outcome.change = Change::kBalanced;
    outcome.note = "beyond the threshold, but not significant: the runs differ too much";
  }
}

Verdict verdict_of(const std::vector<MetricOutcome>& metrics) {
  const auto any = [&](Change change) {
    return std::any_of(metrics.begin(), metrics.end(),
                       [&](const MetricOutcome& metric) { return metric.change == change; });
  };
  if (any(Change::kBetter) && any(Change::kWorse)) return Verdict::kMixed;
  if (any(Change::kWorse)) return Verdict::kWorse;
  return any(Change::kBetter) ? Verdict::kBetter : Verdict::kBalanced;
}

}  // namespace

int64_t ConfigOutcome::failures() const {
  return std::count_if(runs.begin(), runs.end(), [](const SuiteRun& run) { return run.failed(); });
}

const char* to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "BETTER";
    case Verdict::kWorse:
      return "WORSE";
    case Verdict::kMixed:
      return "MIXED";
    case Verdict::kBalanced:
      return "BALANCED";
    case Verdict::kUnreliable:
      return "UNRELIABLE";
    case Verdict::kNoBaseline:
      return "NO BASELINE";
    case Verdict::kSkipped:
      return "SKIPPED";
  }
  return "";
}

bool fails_the_suite(Verdict verdict) {
  return verdict == Verdict::kWorse || verdict == Verdict::kUnreliable;
}

double allowed_slowdown(double other_load) {
  const double left = 1 - std::clamp(other_load, 0.0, 0.5);
  return other_load < kQuiet ? 1 : 1 / (left * left);
}

ConfigOutcome judge(const std::string& config, std::vector<SuiteRun> runs, const Baseline* baseline,
                    const Machine& machine) {
  ConfigOutcome outcome;
  outcome.config = config;
  outcome.runs = std::move(runs);
  const double slowdown = allowed_slowdown(mean_load(outcome.runs));
  const bool comparable = baseline != nullptr && baseline->comparable_on(machine);
  for (const std::string& name : metric_names(outcome.runs, baseline)) {
    MetricOutcome metric{.name = name, .measure = summarize(outcome.runs, name)};
    const BaselineMetric* expected =
        baseline == nullptr ? nullptr : find_named(baseline->metrics, name);
    if (expected != nullptr) {
      metric.baseline = *expected;
      if (depends_on_machine(name) && !comparable)
        metric.note = "not compared: the baseline is from another machine";
      else
        compare(metric, depends_on_load(name) ? slowdown : 1);
      metric.measure.better = expected->better;
    }
    outcome.metrics.push_back(std::move(metric));
  }
  const auto count = static_cast<int64_t>(outcome.runs.size());
  const auto missing = std::find_if(outcome.metrics.begin(), outcome.metrics.end(),
                                    [](auto& metric) { return metric.change == Change::kMissing; });
  if (outcome.failures() * 2 >= count) {
    outcome.verdict = Verdict::kUnreliable;
    outcome.reason = cat(outcome.failures(), " of ", count, " runs failed");
  } else if (missing != outcome.metrics.end()) {
    outcome.verdict = Verdict::kUnreliable;
    outcome.reason = cat("no run reports ", missing->name, ", which the baseline lists");
  } else if (baseline != nullptr) {
    outcome.verdict = verdict_of(outcome.metrics);
  }
  return outcome;
}

}  // namespace emblem
