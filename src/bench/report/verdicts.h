// bench/report/verdicts.h - results compared with baselines and with earlier results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

enum class Tone { kGood, kBad, kNeutral };

// One metric of a suite's result and its baseline: the settings "baseline_NAME" and "margin_NAME"
// of the result.
struct BaselineRow {
  std::string metric;
  std::string measured, baseline, difference, margin;  // with units; "" if there is none
  Tone tone = Tone::kNeutral;                          // good or bad if beyond the margin
};

struct VerdictBlock {
  std::string name, verdict;  // "BETTER", "WORSE", ...: the setting "verdict"
  Tone tone = Tone::kNeutral;
  std::string runs;  // "3 runs, 1 failed"
  std::string reason;
  std::vector<std::string> failures;
  std::vector<BaselineRow> rows;
};

// One block per result with a verdict.
std::vector<VerdictBlock> verdict_blocks(const std::vector<BenchResult>& results);

// One metric that both sides have.
struct ChangeRow {
  std::string benchmark, name, metric;
  std::string before, after, change;  // "1.84x better", "3 % worse", "the same"
  Tone tone = Tone::kNeutral;
  double times = 1;         // ratio; above 1: better
  std::optional<double> p;  // if both sides have samples
};

// Matches results by benchmark, name and first word of the program, in the order of `after`.
// Changes that are not significant are neutral: by Welch's test with Holm's correction or, without
// samples, if they are within the spread. Changes of single measurements are neutral, too.
std::vector<ChangeRow> change_rows(const std::vector<BenchResult>& before,
                                   const std::vector<BenchResult>& after);

// The setting "advice" of a benchmark: a recommendation as text.
struct Advice {
  std::string of, text;
};
std::vector<Advice> advice_of(const std::vector<BenchResult>& results);

}  // namespace emblem
