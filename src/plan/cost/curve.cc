#include "plan/cost/curve.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace emblem {
namespace {

double between(double x, double x0, double x1, double y0, double y1) {
  return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y0;
}

}  // namespace

Curve::Curve(std::vector<CurvePoint> points) : points_(std::move(points)) {
  std::sort(points_.begin(), points_.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.size < b.size; });
  for (size_t i = 1; i < points_.size(); ++i)
    points_[i].seconds = std::max(points_[i].seconds, points_[i - 1].seconds);
}

double Curve::at(double size) const {
  if (points_.empty()) return 0;
  if (points_.size() == 1 || size <= points_.front().size) return points_.front().seconds;
  size_t next = 1;
  while (next + 1 < points_.size() && points_[next].size < size) ++next;
  const CurvePoint &low = points_[next - 1], &high = points_[next];
  return between(size, low.size, high.size, low.seconds, high.seconds);
}

KernelCurves::KernelCurves(std::vector<Level> levels) : levels_(std::move(levels)) {
  std::sort(levels_.begin(), levels_.end(), [](const Level& a, const Level& b) {
    return std::tie(a.table_bytes, a.distinct_share) < std::tie(b.table_bytes, b.distinct_share);
  });
  for (const Level& level : levels_)
    if (table_bytes_.empty() || table_bytes_.back() != level.table_bytes)
      table_bytes_.push_back(level.table_bytes);
}

double KernelCurves::at_size(double table_bytes, double requests, double distinct_share) const {
  const Level *low = nullptr, *high = nullptr;
  for (const Level& level : levels_) {
    if (level.table_bytes != table_bytes) continue;
    if (low == nullptr || level.distinct_share <= distinct_share) low = &level;
    high = &level;
    if (level.distinct_share >= distinct_share) break;
  }
  if (low == nullptr) return 0;
  return between(std::clamp(distinct_share, low->distinct_share, high->distinct_share),
                 low->distinct_share, high->distinct_share, low->curve.at(requests),
                 high->curve.at(requests));
}

double KernelCurves::at(double requests, double distinct_share, double table_bytes) const {
  if (table_bytes_.empty()) return 0;
  const double size = std::clamp(table_bytes, table_bytes_.front(), table_bytes_.back());
  const auto above = std::lower_bound(table_bytes_.begin(), table_bytes_.end(), size);
  const double high = *above, low = above == table_bytes_.begin() ? high : *(above - 1);
  const double at_high = at_size(high, requests, distinct_share);
  if (low == high || size == high) return at_high;
  return between(std::log(size), std::log(low), std::log(high),
                 at_size(low, requests, distinct_share), at_high);
}

}  // namespace emblem
