#include "bench/result/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace emblem {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTail = 0.025;  // on each side of a 95 % interval

// The continued fraction of the incomplete beta function, evaluated by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kPrecise = 1e-15;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < kPrecise) break;
  }
  return fraction;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// The number of values outside of the median's interval on each side: the largest k for which fewer
// than k heads in n coin tosses have a probability of at most kTail.
size_t sign_test_cut(size_t n) {
  const auto log_chance = [&](size_t heads) {
    const auto all = static_cast<double>(n), some = static_cast<double>(heads);
    return std::lgamma(all + 1) - std::lgamma(some + 1) - std::lgamma(all - some + 1) -
           all * std::log(2.0);
  };
  size_t cut = 0;
  for (double below = std::exp(log_chance(0)); below <= kTail; below += std::exp(log_chance(cut)))
    ++cut;
  return cut;
}

}  // namespace

double percentile(std::span<const double> sorted, double quantile) {
  if (sorted.empty()) return 0;
  // 0.99 * 100 is slightly above 99 in floating point; it must not select the 100th value.
  const double rank = std::ceil(quantile * static_cast<double>(sorted.size()) - 1e-9);
  const auto at = static_cast<size_t>(std::max(1.0, rank)) - 1;
  return sorted[std::min(at, sorted.size() - 1)];
}

LatencySummary summarize(std::vector<double> latencies) {
  LatencySummary summary;
  if (latencies.empty()) return summary;
  std::sort(latencies.begin(), latencies.end());
  summary.count = static_cast<int64_t>(latencies.size());
  summary.mean = std::accumulate(latencies.begin(), latencies.end(), 0.0) /
                 static_cast<double>(latencies.size());
  summary.p50 = percentile(latencies, 0.5);
  summary.p90 = percentile(latencies, 0.9);
  summary.p95 = percentile(latencies, 0.95);
  summary.p99 = percentile(latencies, 0.99);
  summary.p999 = percentile(latencies, 0.999);
  summary.max = latencies.back();
  return summary;
}

bool is_stable(std::span<const LoadWindow> windows, size_t needed, double tolerance) {
  if (windows.size() < needed || needed == 0) return false;
  const auto last = windows.last(needed);
  const auto within = [&](auto value_of) {
    double mean = 0;
    for (const LoadWindow& window : last) mean += value_of(window) / static_cast<double>(needed);
    return std::all_of(last.begin(), last.end(), [&](const LoadWindow& window) {
      return std::abs(value_of(window) - mean) <= tolerance * mean;
    });
  };
  if (std::any_of(last.begin(), last.end(),
                  [](const LoadWindow& window) { return window.latency.count == 0; }))
    return false;
  return within([](const LoadWindow& window) { return window.rate(); }) &&
         within([](const LoadWindow& window) { return window.latency.mean; });
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation_of(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double student_cdf(double t, double freedom) {
  const double tail = 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
  return t > 0 ? 1 - tail : tail;
}

double student_quantile(double probability, double freedom) {
  if (probability < 0.5) return -student_quantile(1 - probability, freedom);
  double low = 0, high = 1;
  while (student_cdf(high, freedom) < probability && high < 1e12) high *= 2;
  for (int halving = 0; halving < 200 && high - low > 1e-12 * high; ++halving) {
    const double middle = (low + high) / 2;
    (student_cdf(middle, freedom) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::optional<Interval> mean_interval(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const double mean = mean_of(values);
  const double half =
      student_quantile(1 - kTail, n - 1) * standard_deviation_of(values) / std::sqrt(n);
  return Interval{mean - half, mean + half};
}

std::optional<MeansTest> test_means(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double variance_a = std::pow(standard_deviation_of(a), 2);
  const double variance_b = std::pow(standard_deviation_of(b), 2);
  const double of_a = variance_a / n, of_b = variance_b / m, error = std::sqrt(of_a + of_b);
  MeansTest test;
  test.difference = mean_of(b) - mean_of(a);
  if (error == 0) {  // all runs gave the same value
    test.interval = {test.difference, test.difference};
    test.p = test.difference == 0 ? 1 : 0;
    test.effect = test.difference == 0 ? 0 : std::copysign(kInfinity, test.difference);
    return test;
  }
  const double freedom =
      (of_a + of_b) * (of_a + of_b) / (of_a * of_a / (n - 1) + of_b * of_b / (m - 1));
  const double half = student_quantile(1 - kTail, freedom) * error;
  test.interval = {test.difference - half, test.difference + half};
  test.p = 2 * student_cdf(-std::abs(test.difference) / error, freedom);
  const double pooled = std::sqrt(((n - 1) * variance_a + (m - 1) * variance_b) / (n + m - 2));
  const double correction = 1 - 3 / (4 * (n + m) - 9);
  test.effect = correction * test.difference / pooled;
  return test;
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t left, size_t right) { return p_values[left] < p_values[right]; });
  std::vector<double> adjusted(p_values.size());
  double so_far = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const auto others = static_cast<double>(order.size() - rank);
    so_far = std::max(so_far, std::min(1.0, others * p_values[order[rank]]));
    adjusted[order[rank]] = so_far;
  }
  return adjusted;
}

Median median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size(), cut = sign_test_cut(n);
  Median median;
  median.value = (values[(n - 1) / 2] + values[n / 2]) / 2;
  median.interval =
      cut == 0 ? Interval{-kInfinity, kInfinity} : Interval{values[cut - 1], values[n - cut]};
  return median;
}

}  // namespace emblem
