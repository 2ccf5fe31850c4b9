#include "retrieval/list_bounds.h"

#include <algorithm>
#include <cmath>

#include "core/threads/thread_pool.h"

namespace emblem {
namespace {

// More than what sums of up to 65,536 elements in double precision lose.
constexpr double kRounding = 1e-9;

}  // namespace

ListBounds::ListBounds(const Context& context, const ItemSegment& items,
                       const ItemSegment& centroids)
    : dim_(static_cast<double>(items.items().rows.dim())), bounds_(items.lists().size()) {
  parallel_for(context, std::ssize(bounds_), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> centroid(static_cast<size_t>(items.items().rows.dim()));
    for (int64_t list = begin; list < end; ++list) {
      centroids.items().rows.read(list, centroid.data());
      bounds_[list] = bound_of(items, items.lists()[list], centroid);
    }
  });
}

ListBounds::Bound ListBounds::bound_of(const ItemSegment& items, const ItemList& list,
                                       std::span<const float> centroid) {
  Bound bound{.centroid = length_of(centroid)};
  std::vector<float> row(centroid.size());
  for (int64_t i = 0; i < list.count; ++i) {
    items.items().rows.read(list.first + i, row.data());
    double product = 0.0, apart = 0.0;
    for (size_t k = 0; k < row.size(); ++k) {
      const double by = static_cast<double>(row[k]) - centroid[k];
      product += static_cast<double>(row[k]) * centroid[k];
      apart += by * by;
    }
    const double length = length_of(row), lengths = length * bound.centroid;
    bound.radius = std::max(bound.radius, std::sqrt(apart));
    bound.longest = std::max(bound.longest, length);
    bound.cosine = std::min(bound.cosine, lengths > 0.0 ? product / lengths - kRounding : -1.0);
  }
  bound.cosine = std::max(bound.cosine, -1.0);
  bound.sine = std::sqrt(1.0 - bound.cosine * bound.cosine);
  return bound;
}

double ListBounds::of(int64_t list, float centroid_score, double query_length) const {
  const Bound& bound = bounds_[list];
  // A score is a sum of `dim` products in fp32: four times what it may lose is allowed, which
  // covers the double precision below, too. Denormals may be taken for zeros.
  const auto error = [&](double length) {
    return std::ldexp(dim_ + 8, -22) * query_length * length +
           std::ldexp(dim_, -126) * (query_length + length + dim_);
  };
  const double product = centroid_score + error(bound.centroid),
               by_distance = product + query_length * bound.radius,
               lengths = query_length * bound.centroid,
               cosine = lengths > 0.0 ? std::clamp(product / lengths, -1.0, 1.0) : 1.0;
  // The cosine of the angle between the query and the nearest that an item may be to it.
  const double nearest = cosine >= bound.cosine ? 1.0
                                                : cosine * bound.cosine +
                                                      std::sqrt(1.0 - cosine * cosine) * bound.sine,
               by_angle = query_length * bound.longest * std::max(nearest, 0.0);
  return std::min(by_distance, by_angle) + error(bound.longest);
}

}  // namespace emblem
