// bench/judge/verdict.h - compares repeated runs of a pipeline with its baseline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/judge/baseline.h"
#include "bench/result/result.h"

namespace emblem {

// One training run of a suite.
struct SuiteRun {
  int64_t seed = 0;
  std::string failure;  // reason of the failure; empty: succeeded
  std::string log;      // path
  double seconds = 0;
  double other_load = 0;  // share of the machine's CPU time used by other processes
  Named<Measure> metrics;

  bool failed() const { return !failure.empty(); }
};

enum class Change { kBetter, kWorse, kBalanced, kNotCompared, kMissing };

struct MetricOutcome {
  std::string name;
  Measure measure;  // the mean, the standard deviation, the interval of the mean, and the samples
  std::optional<BaselineMetric> baseline;
  Change change = Change::kNotCompared;
  std::string note;  // explains `change` where needed
};

enum class Verdict { kBetter, kWorse, kMixed, kBalanced, kUnreliable, kNoBaseline, kSkipped };

struct ConfigOutcome {
  std::string config;
  std::vector<SuiteRun> runs;
  std::vector<MetricOutcome> metrics;
  Verdict verdict = Verdict::kNoBaseline;
  std::string reason;  // reason for kUnreliable and kSkipped

  int64_t failures() const;
};

const char* to_text(Verdict verdict);  // "BETTER", "WORSE", ...
bool fails_the_suite(Verdict verdict);

// A metric is better or worse when its mean differs from the baseline by the threshold or more and,
// with three runs or more, the 95 % interval of the mean excludes the baseline. Metrics that depend
// on the machine are compared only if the baseline was measured on a comparable machine; thresholds
// of metrics that depend on load are relaxed by allowed_slowdown(). `baseline` may be null.
ConfigOutcome judge(const std::string& config, std::vector<SuiteRun> runs, const Baseline* baseline,
                    const Machine& machine);

// The slowdown to allow for when other processes use `other_load` of the CPU time: threads lose
// that share, and wait for those of their own threads that lost more.
double allowed_slowdown(double other_load);

}  // namespace emblem
