// retrieval/list_bounds.h - upper bounds of the scores of the items of a list, by which a search
// skips lists without looking at their items.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/context.h"
#include "retrieval/segment.h"

namespace emblem {

// Thread-safe: it never changes.
class ListBounds {
 public:
  // Of the lists of `items`, whose centroids are the rows of `centroids`.
  ListBounds(const Context& context, const ItemSegment& items, const ItemSegment& centroids);

  // Not below the score (ItemRows::score) of any item of a list with a query of this length, whose
  // score with the list's centroid is `centroid_score`.
  double of(int64_t list, float centroid_score, double query_length) const;

 private:
  // Items are within `radius` of the centroid and within an angle of it, and not longer than
  // `longest`.
  struct Bound {
    double centroid = 0.0;  // length
    double radius = 0.0, longest = 0.0;
    double cosine = 1.0, sine = 0.0;  // of the angle
  };

  static Bound bound_of(const ItemSegment& items, const ItemList& list,
                        std::span<const float> centroid);

  double dim_;
  std::vector<Bound> bounds_;
};

}  // namespace emblem
