// init/number_summary.h - what a sample of numbers says about a column: its scale, and values that
// stand for missing ones.
#pragma once

#include <string>
#include <vector>

#include "init/value_samples.h"

namespace emblem {

struct NumberSummary {
  // Repeated values far outside of all others, like -999: "missing". They are not in the statistics
  // below.
  std::vector<double> sentinels;
  double sentinel_share = 0;  // of the sampled numbers
  double min = 0, max = 0, median = 0;
  // Of values within a wide range around most of them, so that a few outliers do not matter.
  double mean = 0, deviation = 1;
  bool suits_logarithm = false;  // skewed amounts, of which log1p keeps differences
  double log_mean = 0, log_deviation = 1;
  bool has_outliers = false;  // more than kLimit deviations away, after the logarithm if it suits

  static constexpr double kLimit = 8;
};

NumberSummary summarize(const NumberSample& sample);

// As it is written in files: "-999", "99.9".
std::string number_text(double value);

}  // namespace emblem
