// init/number_summary.h - what the numbers of a column are like: their scale, and values that stand
// for missing ones.
#pragma once

#include <string>
#include <vector>

#include "init/column_profile.h"

namespace emblem {

// What a sample of numbers says about a column: its scale, and values that stand for missing ones.
struct NumberSummary {
  // Repeated values far outside of all others, like -999: "missing". They are not in the statistics
  // below.
  std::vector<double> sentinels;
  double sentinel_share = 0;  // share of the sampled numbers
  double min = 0, max = 0, median = 0;
  std::vector<double> quantiles;  // at kQuantiles + 1 equal distances, from min to max
  // Moments of values within a wide range around most of them, so that a few outliers do not
  // matter.
  double mean = 0, deviation = 1;
  bool suits_logarithm = false;  // skewed amounts, of which log1p keeps differences
  double log_mean = 0, log_deviation = 1;
  bool has_outliers = false;  // more than kLimit deviations away, after the logarithm if it suits

  static constexpr double kLimit = 8;
  static constexpr int kQuantiles = 64;
};

// Numbers that stand for missing ones more often than others do.
using IsUsual = bool (*)(double value);

// "99", "-999", "9999.0": what people write for a missing number.
bool has_only_nines(double value);
// 0001-01-01, 1900-01-01, 1970-01-01, 2999-12-31, 9999-12-31: what is written for a missing date,
// as days since 1970.
bool is_placeholder_day(double day);

NumberSummary summarize(const NumberSample& sample, IsUsual is_usual);

// As it is written in files: "-999", "99.9".
std::string number_text(double value);

}  // namespace emblem
