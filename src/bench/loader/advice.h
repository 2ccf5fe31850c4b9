// bench/loader/advice.h - which of the settings measured to use.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/loader/setting.h"

namespace emblem {

inline constexpr double kGoodEnough = 0.97;  // of the best rate

struct LoaderAdvice {
  size_t best = 0, recommended = 0;  // positions in the list of settings
  double share = 1;                  // of the best one's rate that the recommended one reached
  size_t compared = 0;               // settings
};

// How often the rate of setting `a` contains that of setting `b`, measured anew.
using CompareAgain = std::function<double(size_t a, size_t b)>;

// The smallest setting whose rate is within 3 % of the best: fewest workers, then the smallest
// batch, then the least prefetch, then the earlier input. A candidate must show it once more side
// by side with the best, lest a lucky or unlucky run decide. Shuffling, sampling and the state of
// the page cache are given, not chosen: only settings that have them as the first one has are
// compared.
LoaderAdvice advise(const std::vector<LoaderSetting>& settings, const std::vector<double>& rates,
                    const CompareAgain& compare_again);

// The recommended setting as a part of a pipeline file, with the reason in a comment.
std::string config_fragment(const LoaderSetting& setting, const std::string& reason);

}  // namespace emblem
