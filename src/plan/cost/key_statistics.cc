#include "plan/cost/key_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace emblem {

DistinctKeys::DistinctKeys(std::vector<Point> points, double lookups_per_row, double most_keys)
    : points_(std::move(points)), lookups_per_row_(lookups_per_row), most_keys_(most_keys) {}

double DistinctKeys::at(double rows) const {
  if (points_.empty() || rows <= 0) return 0;
  double most = rows * lookups_per_row_;
  if (most_keys_ > 0) most = std::min(most, most_keys_);
  size_t next = 1;
  while (next + 1 < points_.size() && points_[next].rows < rows) ++next;
  // With a single measurement: as if the first row had no key twice.
  const Point low = points_.size() == 1 ? Point{1, lookups_per_row_} : points_[next - 1];
  const Point high = points_.size() == 1 ? points_[0] : points_[next];
  if (low.keys <= 0 || high.keys <= 0) return std::min(most, high.keys);
  double power =
      high.rows > low.rows ? std::log(high.keys / low.keys) / std::log(high.rows / low.rows) : 1.0;
  power = std::clamp(power, 0.0, 1.0);
  return std::min(most, low.keys * std::pow(rows / low.rows, power));
}

namespace {

// Different keys among `lookups` draws: sum over keys of 1 - (1 - p)^lookups. Keys far down the
// order are taken in ranges of about 1 % in rank, which have nearly equal frequencies.
double expected_distinct(double keys, double alpha, double lookups) {
  double weights = 0, distinct = 0;
  const auto for_each_range = [&](auto&& body) {
    for (double first = 1; first <= keys;) {
      const double width = std::max(1.0, std::floor(first * 0.01));
      const double count = std::min(width, keys - first + 1);
      body(count, std::pow(first + (count - 1) / 2, -alpha));
      first += width;
    }
  };
  for_each_range([&](double count, double weight) { weights += count * weight; });
  for_each_range([&](double count, double weight) {
    distinct += count * -std::expm1(lookups * std::log1p(-std::min(weight / weights, 1 - 1e-15)));
  });
  return distinct;
}

}  // namespace

DistinctKeys power_law_keys(double keys, double lookups_per_row, double alpha, double rows,
                            int doublings) {
  std::vector<DistinctKeys::Point> points;
  for (int i = 0; i <= doublings; ++i, rows *= 2)
    points.push_back({rows, expected_distinct(keys, alpha, rows * lookups_per_row)});
  return DistinctKeys(std::move(points), lookups_per_row, keys);
}

void KeyCounter::add(std::span<const int64_t> keys) {
  for (const int64_t key : keys) ++counts_[key];
  lookups_ += static_cast<int64_t>(keys.size());
}

void KeyCounter::end_rows(int64_t rows) {
  rows_ += rows;
  const DistinctKeys::Point point{static_cast<double>(rows_), static_cast<double>(counts_.size())};
  if (next_ == 0 || rows_ >= next_) {
    points_.push_back(point);
    next_ = 2 * rows_;
  }
}

DistinctKeys KeyCounter::distinct(double most_keys) const {
  std::vector<DistinctKeys::Point> points = points_;
  const auto rows = static_cast<double>(rows_);
  if (!points.empty() && points.back().rows < rows)
    points.push_back({rows, static_cast<double>(counts_.size())});
  return DistinctKeys(std::move(points), rows_ == 0 ? 0.0 : static_cast<double>(lookups_) / rows,
                      most_keys);
}

double KeyCounter::share_of_hottest(size_t most) const {
  if (lookups_ == 0) return 0;
  std::vector<int64_t> counts;
  for (const auto& [key, count] : counts_) counts.push_back(count);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  double sum = 0;
  for (size_t i = 0; i < std::min(most, counts.size()); ++i) sum += static_cast<double>(counts[i]);
  return sum / static_cast<double>(lookups_);
}

}  // namespace emblem
