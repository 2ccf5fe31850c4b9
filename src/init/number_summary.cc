#include "init/number_summary.h"

#include <algorithm>
#include <cmath>

#include "data/format/number_text.h"
#include "init/column_profile.h"

namespace emblem {
namespace {

using Values = std::vector<double>;

// Of sorted values.
double quantile(const Values& values, double share) {
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

// "99", "-999", "9999.0": what people write for a missing number.
bool has_only_nines(double value) {
  const std::string text = number_text(std::fabs(value));
  return text.size() >= 2 && std::all_of(text.begin(), text.end(), [](char c) { return c == '9'; });
}

// Whether the smallest (or the largest) of sorted values stands for a missing one; `count` is the
// number of its occurrences, and `rest` are the others.
bool is_sentinel(double value, size_t count, const Values& rest) {
  if (rest.size() < 20 || count < 3 || count * 1000 < rest.size()) return false;
  const double nearest = value < rest.front() ? rest.front() : rest.back();
  // There may be another one at the other end.
  const double spread = quantile(rest, 0.95) - quantile(rest, 0.05);
  const double gap = std::fabs(value - nearest);
  // A flag of 0 and 1 has no scale to compare with.
  const bool has_scale = rest.front() != rest.back() && spread > 0;
  return has_scale && gap > spread * (has_only_nines(value) ? 2.0 : 20.0);
}

// Takes sentinels off both ends.
void take_sentinels(Values& values, NumberSummary& summary) {
  const size_t all = values.size();
  for (bool found = true; found && summary.sentinels.size() < 4;) {
    found = false;
    for (const bool low : {true, false}) {
      if (values.empty()) return;
      const double value = low ? values.front() : values.back();
      const auto [begin, end] = std::equal_range(values.begin(), values.end(), value);
      Values rest(values.begin(), begin);
      rest.insert(rest.end(), end, values.end());
      if (!is_sentinel(value, static_cast<size_t>(end - begin), rest)) continue;
      summary.sentinels.push_back(value);
      values = std::move(rest);
      found = true;
    }
  }
  summary.sentinel_share = 1 - static_cast<double>(values.size()) / static_cast<double>(all);
}

struct Scale {
  double mean = 0, deviation = 1;
  bool has_outliers = false;
};

Scale scale_of(const Values& values) {
  const double low = quantile(values, 0.01), high = quantile(values, 0.99);
  const double range = high - low;
  Moments moments;
  for (const double value : values)
    moments.add(range > 0 ? std::clamp(value, low - range, high + range) : value);
  const double deviation = moments.deviation() > 0 ? moments.deviation() : 1.0;
  const double most = std::max(std::fabs(values.front() - moments.mean()),
                               std::fabs(values.back() - moments.mean()));
  return {moments.mean(), deviation, most > NumberSummary::kLimit * deviation};
}

// Whether the values keep differences after log1p that a network can use.
bool suits_logarithm(const Values& values, const Values& logarithms) {
  Moments moments, log_moments;
  for (const double value : values) moments.add(value);
  for (const double value : logarithms) log_moments.add(value);
  const bool skewed = moments.skewness() > 2 || moments.deviation() > 2 * moments.mean();
  return values.front() >= 0 && values.back() >= 20 && skewed &&
         log_moments.deviation() > 0.25 * log_moments.mean();
}

}  // namespace

NumberSummary summarize(const NumberSample& sample) {
  NumberSummary summary;
  Values values = sample.values();
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  take_sentinels(values, summary);
  summary.min = values.front();
  summary.max = values.back();
  summary.median = quantile(values, 0.5);
  Values logarithms;
  for (const double value : values) logarithms.push_back(std::log1p(std::max(value, 0.0)));
  const Scale scale = scale_of(values), log_scale = scale_of(logarithms);
  summary.mean = scale.mean;
  summary.deviation = scale.deviation;
  summary.log_mean = log_scale.mean;
  summary.log_deviation = log_scale.deviation;
  summary.suits_logarithm = suits_logarithm(values, logarithms);
  summary.has_outliers = summary.suits_logarithm ? log_scale.has_outliers : scale.has_outliers;
  return summary;
}

std::string number_text(double value) {
  std::string text;
  write_number(value, text);
  return text;
}

}  // namespace emblem
