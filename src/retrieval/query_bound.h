// retrieval/query_bound.h - how far approximate scores of a query may be from the exact ones.
#pragma once

#include <cmath>
#include <span>

#include "retrieval/segment.h"

namespace emblem {

// The difference is at most error * ScoreBound::error + length * ScoreBound::length + constant.
struct QueryBound {
  float error, length, constant;

  EMBLEM_HD float of(const ScoreBound& bound) const {
    return error * bound.error + length * bound.length + constant;
  }
};

// Bound for a query that was rounded for the products: with q~ and x~ rounded, |q~ x~ - q x| <=
// |q~| |x~ - x| + |q~ - q| |x|. Sums of `dim` products in any order add dim 2^-24 of the lengths
// each; four times that is allowed. Denormals that are taken for zeros move elements by 2^-126.
inline QueryBound bound_of(std::span<const float> query, std::span<const float> rounded) {
  double moved = 0.0;
  for (size_t k = 0; k < query.size(); ++k) {
    const double by = static_cast<double>(rounded[k]) - query[k];
    moved += by * by;
  }
  moved = std::sqrt(moved);
  const double length = length_of(query) + moved, dim = static_cast<double>(query.size()),
               denormal = std::sqrt(dim) * std::ldexp(1.0, -126);
  constexpr double kUp = 1.0 + 1e-4;
  return {static_cast<float>(kUp * length),
          static_cast<float>(kUp * (moved + length * std::ldexp(dim + 8, -22) + denormal)),
          static_cast<float>(kUp * (length + dim) * denormal)};
}

}  // namespace emblem
