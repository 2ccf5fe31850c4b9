// bench/judge/verdict.h - repeated runs of a pipeline held against its baseline.
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
  std::string failure;  // why it failed; empty: it did not
  std::string log;      // a file
  double seconds = 0;
  double other_load = 0;  // the share of the machine's CPU time that other processes took
  Named<Measure> metrics;

  bool failed() const { return !failure.empty(); }
};

enum class Change { kBetter, kWorse, kBalanced, kNotCompared, kMissing };

struct MetricOutcome {
  std::string name;
  Measure measure;  // the mean, the standard deviation, the interval of the mean, and the samples
  std::optional<BaselineMetric> baseline;
  Change change = Change::kNotCompared;
  std::string note;  // why it was judged so, where that is not plain
};

enum class Verdict { kBetter, kWorse, kMixed, kBalanced, kUnreliable, kNoBaseline, kSkipped };

struct ConfigOutcome {
  std::string config;
  std::vector<SuiteRun> runs;
  std::vector<MetricOutcome> metrics;
  Verdict verdict = Verdict::kNoBaseline;
  std::string reason;  // of kUnreliable and kSkipped

  int64_t failures() const;
};

const char* to_text(Verdict verdict);  // "BETTER", "WORSE", ...
bool fails_the_suite(Verdict verdict);

// A metric is better or worse when its mean lies beyond the baseline by the threshold or more and,
// where there are three runs or more, the 95 % interval of the mean leaves the baseline out. What
// depends on the machine is compared only where the baseline was measured on one like it; what
// depends on load may be worse by what other processes took, too. `baseline` may be null.
ConfigOutcome judge(const std::string& config, std::vector<SuiteRun> runs, const Baseline* baseline,
                    const Machine& machine);

// How many times slower than alone a run may be while others take `other_load` of the CPU time:
// threads lose what others take, and wait for those of their own that lost more.
double allowed_slowdown(double other_load);

}  // namespace emblem
