// data/feature/fg/overlap.h - how much of a query is in a title, both lists of terms.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace emblem {

enum class OverlapMethod {
  kQueryCommonRatio,   // terms of the query that the title has / terms of the query
  kTitleCommonRatio,   // terms of the title that the query has / terms of the title
  kIsContain,          // 1 when the query as a whole is in the title, in its order; else 0
  kIsEqual,            // 1 when they are equal; else 0
  kIndexOf,            // where the query as a whole is first in the title, from 0; -1: nowhere
  kProximityMinCover,  // terms of the shortest part of the title with all terms of the query; 0:
                       // none
  // The least, largest and mean distance between two terms of the query that the title has. One
  // term in all: 0. One of several terms is found: the length of the title. None is: one more.
  kProximityMinDist,
  kProximityMaxDist,
  kProximityAvgDist,
};

// Throws Error that names `feature` and lists the methods.
OverlapMethod parse_overlap_method(const std::string& text, const std::string& feature);

// Both have terms.
double overlap_of(OverlapMethod method, std::span<const std::string_view> query,
                  std::span<const std::string_view> title);

}  // namespace emblem
