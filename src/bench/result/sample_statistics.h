// bench/result/sample_statistics.h - statistics of repeated measurements: means, medians,
// confidence intervals and significance tests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace emblem {

// One answered request. Times are seconds since the start of the load.
struct LoadSample {
  double ended = 0;
  double latency = 0;   // since it was sent (closed loop) or due (open loop): bench/load/loop.h
  double send_lag = 0;  // how late it was sent
};

struct LatencySummary {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, p999 = 0, max = 0;
};

// The smallest value v of `sorted` such that a share of `quantile` (0 to 1] is <= v; 0 if empty.
double percentile(std::span<const double> sorted, double quantile);

LatencySummary summarize(std::vector<double> latencies);

// One measuring window of a load test.
struct LoadWindow {
  double seconds = 0;
  LatencySummary latency;

  double rate() const { return seconds > 0 ? static_cast<double>(latency.count) / seconds : 0; }
};

// Whether the rate and the mean latency of each of the last `needed` windows are within `tolerance`
// (0.1: 10 %) of their means.
bool is_stable(std::span<const LoadWindow> windows, size_t needed, double tolerance);

struct Interval {
  double low = 0, high = 0;

  bool contains(double value) const { return low <= value && value <= high; }
  bool operator==(const Interval&) const = default;
};

double mean_of(std::span<const double> values);  // at least one value
double standard_deviation_of(
    std::span<const double> values);  // sample standard deviation; 0 for one value

// Student's t distribution with `freedom` degrees of freedom, not necessarily an integer.
double student_cdf(double t, double freedom);
double student_quantile(double probability, double freedom);

// The 95 % confidence interval of the mean (Student's t); none for fewer than two values.
std::optional<Interval> mean_interval(std::span<const double> values);

// Welch's t-test: whether two samples with possibly unequal variances have different means.
struct MeansTest {
  double difference = 0;  // mean of b - mean of a
  Interval interval;      // 95 % interval of the difference
  double p = 1;           // two-sided
  double effect = 0;      // Hedges' g: the difference in standard deviations, without the bias of
                          // small samples; infinite where nothing varies but the means differ
};
// None unless both samples have at least two values.
std::optional<MeansTest> test_means(std::span<const double> a, std::span<const double> b);

// Holm's correction of p-values for multiple tests, in the given order.
std::vector<double> holm_adjusted(std::span<const double> p_values);

// The median and its confidence interval of at least 95 % by the sign test: valid for every
// distribution, and robust against a quarter of outliers. Unbounded for fewer than six values.
struct Median {
  double value = 0;
  Interval interval;
};
Median median_of(std::vector<double> values);  // at least one value

}  // namespace emblem
