// bench/loader/advice.h - recommends one of the measured loader settings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/loader/setting.h"

namespace emblem {

inline constexpr double kGoodEnough = 0.97;  // share of the best rate

struct LoaderAdvice {
  size_t best = 0, recommended = 0;  // indices into the list of settings
  double share = 1;                  // rate of the recommended setting relative to the best
  size_t compared = 0;               // settings
};

// The rate of setting `a` divided by that of setting `b`, measured again.
using CompareAgain = std::function<double(size_t a, size_t b)>;

// The smallest setting whose rate is within 3 % of the best: fewest workers, then the smallest
// batch, then the least prefetch, then the earlier input. A candidate is measured again,
// alternating with the best, so that noise of a single run does not decide. Only settings with the
// shuffling, sampling and page cache state of the first setting are compared: these are not chosen
// for speed.
LoaderAdvice advise(const std::vector<LoaderSetting>& settings, const std::vector<double>& rates,
                    const CompareAgain& compare_again);

// The recommended setting as a fragment of a pipeline file, with the reason in a comment.
std::string config_fragment(const LoaderSetting& setting, const std::string& reason);

}  // namespace emblem
