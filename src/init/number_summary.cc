#include "init/number_summary.h"

#include <algorithm>
#include <cmath>

#include "data/format/text/number_text.h"

namespace emblem {
namespace {

using Values = std::vector<double>;

// The values are sorted.
double quantile(const Values& values, double share) {
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

// How far values usually are from each other. Of values most of which are equal, how far the others
// are from these; 0: there is no scale, or they are a flag of 0 and 1.
double scale_of_most(const Values& values) {
  const double low = quantile(values, 0.05), high = quantile(values, 0.95);
  if (high > low) return high - low;
  Values distances;
  for (const double value : values)
    if (value != low) distances.push_back(std::fabs(value - low));
  if (distances.size() < 20) return 0;
  std::sort(distances.begin(), distances.end());
  return distances.front() == distances.back() ? 0 : quantile(distances, 0.95);
}

// The values at one end of sorted ones that may stand for missing ones: up to four that are near
// each other, as 997, 998 and 999 are.
struct EndGroup {
  Values values;               // distinct, from the end inward
  size_t count = 0, most = 0;  // occurrences of all, and of the most frequent

  void add(double value, size_t times) {
    values.push_back(value);
    count += times;
    most = std::max(most, times);
  }
  double extent() const { return std::fabs(values.front() - values.back()); }
};

// Whether a group stands for missing values; `rest` are the others.
bool are_sentinels(const EndGroup& group, const Values& rest, IsUsual is_usual) {
  if (rest.size() < 20 || group.most < 3 || group.count * 1000 < rest.size()) return false;
  if (rest.front() == rest.back()) return false;  // a flag has no scale to compare with
  const double inner = group.values.back();
  const double gap = std::fabs(inner - (inner < rest.front() ? rest.front() : rest.back()));
  // There may be another one at the other end.
  const double scale = scale_of_most(rest);
  const bool any_usual = std::any_of(group.values.begin(), group.values.end(), is_usual);
  return scale > 0 && gap > scale * (any_usual ? 2.0 : 20.0) && group.extent() * 20 <= gap;
}

// The fewest values of one end that are sentinels; none where there are no such values.
EndGroup sentinels_at(bool low, const Values& values, IsUsual is_usual, Values& rest) {
  constexpr size_t kMost = 4;
  EndGroup group;
  rest = values;
  while (!rest.empty() && group.values.size() < kMost) {
    const double value = low ? rest.front() : rest.back();
    const auto [begin, end] = std::equal_range(rest.begin(), rest.end(), value);
    group.add(value, static_cast<size_t>(end - begin));
    rest.erase(begin, end);
    if (are_sentinels(group, rest, is_usual)) return group;
  }
  return {};
}

// Takes sentinels off both ends.
void take_sentinels(Values& values, IsUsual is_usual, NumberSummary& summary) {
  const size_t all = values.size();
  for (bool found = true; found && summary.sentinels.size() < 4;) {
    found = false;
    for (const bool low : {true, false}) {
      Values rest;
      const EndGroup group = sentinels_at(low, values, is_usual, rest);
      if (group.values.empty()) continue;
      summary.sentinels.insert(summary.sentinels.end(), group.values.begin(), group.values.end());
      values = std::move(rest);
      found = true;
    }
  }
  summary.sentinel_share =
      all == 0 ? 0 : 1 - static_cast<double>(values.size()) / static_cast<double>(all);
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

std::string number_text(double value) {
  std::string text;
  write_number(value, text);
  return text;
}

bool has_only_nines(double value) {
  const std::string text = number_text(std::fabs(value));
  return text.size() >= 2 && std::all_of(text.begin(), text.end(), [](char c) { return c == '9'; });
}

bool is_placeholder_day(double day) {
  constexpr double kDays[] = {-719162, -25567, 0, 376199, 2932896};
  return std::find(std::begin(kDays), std::end(kDays), std::floor(day)) != std::end(kDays);
}

NumberSummary summarize(const NumberSample& sample, IsUsual is_usual) {
  NumberSummary summary;
  Values values = sample.values();
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  take_sentinels(values, is_usual, summary);
  summary.min = values.front();
  summary.max = values.back();
  summary.median = quantile(values, 0.5);
  for (int i = 0; i <= NumberSummary::kQuantiles; ++i)
    summary.quantiles.push_back(quantile(values, i / static_cast<double>(NumberSummary::kQuantiles)));
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

}  // namespace emblem
