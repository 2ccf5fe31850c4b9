// bench/judge/compare.h - compares two result files metric by metric.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct MetricComparison {
  std::string benchmark, name, metric;
  Measure a, b;                   // means of all repetitions
  std::optional<MeansTest> test;  // none if either side has fewer than two samples
  double p = 1;                   // p-value of the test, with Holm's correction

  bool significant() const { return test.has_value() && p < 0.05; }
  bool worse() const;   // b is significantly worse
  bool better() const;  // b is significantly better
};

// Matches results by benchmark and name. Several results of one name, and the samples of a metric,
// are repetitions. Throws when the files have no metric in common.
std::vector<MetricComparison> compare_results(const std::vector<BenchResult>& a,
                                              const std::vector<BenchResult>& b);

std::string to_text(const std::vector<MetricComparison>& comparisons);

}  // namespace emblem
