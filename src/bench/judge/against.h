// bench/judge/against.h - two programs run the same benchmark in turns; their ratio is the result.
//
// On a noisy machine the figures of two runs differ by more than what is asked about. Neighbours in
// time share most of the noise: runs go in the order A B, B A, A B, ..., each pair gives one ratio,
// and the median of the ratios is the result (median_of): pairs in which a neighbour came or went
// do not move it. Without a difference a pair's ratio is as likely above 1 as below, whatever the
// noise is, so its interval needs no further assumption.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct AgainstOptions {
  std::string program, other;          // paths of both
  std::vector<std::string> arguments;  // of both: "bench", "train", ...; without --json
  int64_t pairs = 20;
};

struct Ratio {
  std::string benchmark, name, metric;
  Measure program, other;   // means, with the samples
  double times_better = 1;  // above 1: the program is better than the other
  Interval interval;        // of at least 95 %
  std::vector<double> of_each_pair;

  bool better() const { return interval.low > 1; }
  bool worse() const { return interval.high < 1; }
};

// Runs both once unmeasured, then all pairs. `progress` is called with the number of runs that are
// done. Throws Error with the last lines of a run that failed, and when interrupted.
std::vector<Ratio> run_against(const AgainstOptions& options,
                               const std::function<void(int64_t)>& progress);
int64_t runs_of(const AgainstOptions& options);

std::string to_text(const std::vector<Ratio>& ratios);

// For each benchmark three results: both programs', and "against" with the ratios as metrics.
std::vector<BenchResult> to_results(const std::vector<Ratio>& ratios,
                                    const AgainstOptions& options);

}  // namespace emblem
