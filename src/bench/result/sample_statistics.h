// bench/result/sample_statistics.h - statistics of repeated measurements: means, medians,
// confidence intervals and significance tests.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace emblem {

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
  Interval interval;      // of the difference, 95 %
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
