// plan/cost/curve.h - measured seconds by size, and what is read off between the measurements.
#pragma once

#include <vector>

namespace emblem {

struct CurvePoint {
  double size = 0, seconds = 0;
  bool operator==(const CurvePoint&) const = default;
};

// Straight lines between points. Below the first point it is constant: that is the fixed cost of a
// call. Above the last, the last line is extended.
class Curve {
 public:
  Curve() = default;
  // Sorts the points. Seconds that fall with size, which is noise, are raised to those before.
  explicit Curve(std::vector<CurvePoint> points);

  double at(double size) const;  // 0 without points
  const std::vector<CurvePoint>& points() const { return points_; }
  bool operator==(const Curve&) const = default;

 private:
  std::vector<CurvePoint> points_;
};

// The seconds of a kernel over a table: by requests, by the share of them that are different keys,
// and by the bytes of the table, which decide how many rows are in caches.
class KernelCurves {
 public:
  struct Level {
    double table_bytes = 0, distinct_share = 1;
    Curve curve;  // by requests
    bool operator==(const Level&) const = default;
  };

  KernelCurves() = default;
  // Every size of a table has the same shares.
  explicit KernelCurves(std::vector<Level> levels);

  // Linear between shares, and between the logarithms of sizes of tables; constant outside.
  double at(double requests, double distinct_share, double table_bytes) const;
  const std::vector<Level>& levels() const { return levels_; }
  bool operator==(const KernelCurves&) const = default;

 private:
  double at_size(double table_bytes, double requests, double distinct_share) const;
  std::vector<Level> levels_;        // by (table_bytes, distinct_share)
  std::vector<double> table_bytes_;  // distinct ones, rising
};

}  // namespace emblem
