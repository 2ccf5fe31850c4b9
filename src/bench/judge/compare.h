// bench/judge/compare.h - two files of results held against each other, metric by metric.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct MetricComparison {
  std::string benchmark, name, metric;
  Measure a, b;                   // means of all repetitions
  std::optional<MeansTest> test;  // none where either has fewer than two samples
  double p = 1;                   // of the test, corrected for the number of tests (Holm)

  bool significant() const { return test.has_value() && p < 0.05; }
  bool worse() const;   // significantly, in b
  bool better() const;  // significantly, in b
};

// Matches results by benchmark and name; several of one name are repetitions, and so are the
// samples of a metric. Throws when the files have nothing in common.
std::vector<MetricComparison> compare_results(const std::vector<BenchResult>& a,
                                              const std::vector<BenchResult>& b);

std::string to_text(const std::vector<MetricComparison>& comparisons);

}  // namespace emblem
