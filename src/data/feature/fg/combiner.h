// data/feature/fg/combiner.h - one number of several: the `combiner` of lookup and combine
// features.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace emblem {

enum class Combiner { kNone, kSum, kMean, kMin, kMax, kCount, kGapMin, kGapMax };

// "" (kNone), sum, mean or avg, min, max, count, gap_min, gap_max, in any case. Throws Error that
// names `feature` and lists them.
Combiner parse_combiner(const std::string& text, const std::string& feature);

// `values` has at least one; kNone takes the first. A gap is the difference between a value and
// the next larger one; 0 for a single value.
double combine_values(Combiner combiner, std::span<const double> values);

}  // namespace emblem
