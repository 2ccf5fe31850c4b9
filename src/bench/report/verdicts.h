// bench/report/verdicts.h - results beside what was expected of them, and beside what they were.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

enum class Tone { kGood, kBad, kNeutral };

// One metric of a suite's result beside its baseline: the settings "baseline_NAME" and
// "margin_NAME" of the result.
struct BaselineRow {
  std::string metric;
  std::string found, baseline, difference, margin;  // with units; "" where there is none
  Tone tone = Tone::kNeutral;                       // of a difference beyond the margin
};

struct VerdictBlock {
  std::string name, verdict;  // "BETTER", "WORSE", ...: the setting "verdict"
  Tone tone = Tone::kNeutral;
  std::string runs;  // "3 runs, 1 failed"
  std::string reason;
  std::vector<std::string> failures;
  std::vector<BaselineRow> rows;
};

// One for each result with a verdict.
std::vector<VerdictBlock> verdict_blocks(const std::vector<BenchResult>& results);

// One metric of a result that both sides have.
struct ChangeRow {
  std::string benchmark, name, metric;
  std::string before, after, change;  // "1.84x better", "3 % worse", "the same"
  Tone tone = Tone::kNeutral;
  double times = 1;         // how many times better
  std::optional<double> p;  // that chance alone does this; where both sides kept their samples
};

// By benchmark, name and program's first word, in the order of `after`. Changes that chance
// explains are neutral: by Welch's test, corrected for the number of tests, or where samples were
// not kept those within the spread; and so are those of what was measured once.
std::vector<ChangeRow> change_rows(const std::vector<BenchResult>& before,
                                   const std::vector<BenchResult>& after);

// Text for people that benchmarks leave in the setting "advice".
struct Advice {
  std::string of, text;
};
std::vector<Advice> advice_of(const std::vector<BenchResult>& results);

}  // namespace emblem
