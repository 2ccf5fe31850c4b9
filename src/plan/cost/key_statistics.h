// plan/cost/key_statistics.h - how many different keys of a table the rows of a batch have.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace emblem {

// U(n): different keys among the first n rows, measured at rising n. Between measurements and
// beyond them it is a power of n (Heaps' law), and never more than the lookups or the keys there
// are.
class DistinctKeys {
 public:
  struct Point {
    double rows = 0, keys = 0;
    bool operator==(const Point&) const = default;
  };

  DistinctKeys() = default;
  // `most_keys`: rows of a static table; 0: no limit.
  DistinctKeys(std::vector<Point> points, double lookups_per_row, double most_keys);

  double at(double rows) const;
  double lookups_per_row() const { return lookups_per_row_; }
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  double lookups_per_row_ = 0, most_keys_ = 0;
};

// Keys that follow a power law: the k-th most frequent of `keys` occurs in proportion to k^-alpha.
DistinctKeys power_law_keys(double keys, double lookups_per_row, double alpha, double rows,
                            int doublings);

// Counts the keys of a table as batches come. Used by one thread.
class KeyCounter {
 public:
  // Adds keys; end_rows() is called after those of `rows` further rows.
  void add(std::span<const int64_t> keys);
  void end_rows(int64_t rows);

  int64_t rows() const { return rows_; }
  int64_t lookups() const { return lookups_; }
  // U at the numbers of rows where end_rows() was called and that are the first at or above 1, 2,
  // 4, ... times the first one, and at the end.
  DistinctKeys distinct(double most_keys) const;
  // The share of the `most` most frequent keys among all lookups.
  double share_of_hottest(size_t most) const;

 private:
  std::unordered_map<int64_t, int64_t> counts_;
  std::vector<DistinctKeys::Point> points_;
  int64_t rows_ = 0, lookups_ = 0, next_ = 0;
};

}  // namespace emblem
