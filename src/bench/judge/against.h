// bench/judge/against.h - two programs run the same benchmark alternately; the result is the
// ratio of their metrics.
//
// On a noisy machine, two runs of one program can differ by more than the difference to be
// measured. Consecutive runs see similar noise: runs alternate A B, B A, A B, ..., each pair gives
// one ratio, and the result is the median of the ratios (median_of), which pairs disturbed by a
// change of load do not move. If the programs are equally fast, a pair's ratio is above 1 as often
// as below 1 under any noise, so the confidence interval assumes no distribution.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct AgainstOptions {
  std::string program, other;          // paths
  std::vector<std::string> arguments;  // for both: "bench", "train", ...; without --json
  int64_t pairs = 20;
};

struct Ratio {
  std::string benchmark, name, metric;
  Measure program, other;   // means, with the samples
  double times_better = 1;  // above 1: the program is better than the other
  Interval interval;        // at least 95 %
  std::vector<double> of_each_pair;

  bool better() const { return interval.low > 1; }
  bool worse() const { return interval.high < 1; }
};

// Runs each program once as warm-up, then all pairs. `progress` is called with the number of
// finished runs. Throws Error when interrupted, and with the last lines of the log when a run
// fails.
std::vector<Ratio> run_against(const AgainstOptions& options,
                               const std::function<void(int64_t)>& progress);
int64_t runs_of(const AgainstOptions& options);

std::string to_text(const std::vector<Ratio>& ratios);

// Three results per benchmark: one per program, and "against" with the ratios as metrics.
std::vector<BenchResult> to_results(const std::vector<Ratio>& ratios,
                                    const AgainstOptions& options);

}  // namespace emblem
