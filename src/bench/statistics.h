// bench/statistics.h - what repeated measurements tell: means and their intervals, tests, and
// ratios that survive a noisy machine.
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

double mean_of(std::span<const double> values);                // of at least one
double standard_deviation_of(std::span<const double> values);  // of a sample; 0 for one value

// Student's t distribution with `freedom` degrees of freedom, which need not be whole.
double student_cdf(double t, double freedom);
double student_quantile(double probability, double freedom);

// The 95 % interval of the mean by Student's t; none for fewer than two values.
std::optional<Interval> mean_interval(std::span<const double> values);

// Welch's test, which allows unequal variances, of whether two samples have different means.
struct MeansTest {
  double difference = 0;  // mean of b - mean of a
  Interval interval;      // of the difference, 95 %
  double p = 1;           // two-sided
  double effect = 0;      // Hedges' g: the difference in standard deviations, without the bias of
                          // small samples; infinite where nothing varies but the means differ
};
// None unless both samples have at least two values.
std::optional<MeansTest> test_means(std::span<const double> a, std::span<const double> b);

// Holm's correction: p-values that hold together, in the given order.
std::vector<double> holm_adjusted(std::span<const double> p_values);

// The middle of a symmetric distribution and its interval of at least 95 %, by Wilcoxon's signed
// ranks (the Hodges-Lehmann estimate): exact whatever the distribution's tails are. The interval is
// unbounded for fewer than six values, which cannot tell.
struct Location {
  double estimate = 0;
  Interval interval;
};
Location signed_rank_location(std::span<const double> values);

}  // namespace emblem
