#include "train/lookup_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"

namespace emblem {
namespace {

std::vector<FeatureLookups> reported(const std::vector<FeatureLookups>& lookups) {
  std::vector<FeatureLookups> features = by_feature(lookups);
  std::erase_if(features, [](const FeatureLookups& one) {
    return missing_share(one.counts) <= kReportedMissingShare;
  });
  return features;
}

std::string percent(const LookupCounts& counts) {
  return fmt::format("{:.1f} %", 100 * missing_share(counts));
}

}  // namespace

double missing_share(const LookupCounts& counts) {
  return counts.values == 0
             ? 0.0
             : static_cast<double>(counts.missing) / static_cast<double>(counts.values);
}

void add_lookups(const std::vector<FeatureLookups>& more, std::vector<FeatureLookups>& sum) {
  for (const FeatureLookups& one : more) {
    const auto same = std::find_if(sum.begin(), sum.end(), [&](const FeatureLookups& other) {
      return other.feature == one.feature && other.table == one.table;
    });
    if (same == sum.end()) {
      sum.push_back(one);
    } else {
      same->counts.values += one.counts.values;
      same->counts.missing += one.counts.missing;
    }
  }
}

std::vector<FeatureLookups> by_feature(const std::vector<FeatureLookups>& lookups) {
  std::vector<FeatureLookups> features;
  for (const FeatureLookups& one : lookups) {
    const auto same = std::find_if(features.begin(), features.end(),
                                   [&](const auto& other) { return other.feature == one.feature; });
    if (same == features.end())
      features.push_back(one);
    else if (missing_share(one.counts) > missing_share(same->counts))
      *same = one;
  }
  return features;
}

std::vector<std::string> missing_value_lines(const std::vector<FeatureLookups>& lookups,
                                             LookupPass pass) {
  const char* const what = pass == LookupPass::kEvaluation
                               ? " values have no row in its table (never seen in training?)"
                               : " values were trained without a row in its table (not admitted: "
                                 "see frequency_admission_strategy and max_capacity)";
  std::vector<std::string> lines;
  for (const FeatureLookups& one : reported(lookups))
    lines.push_back(cat("feature \"", printable(one.feature), "\": ", percent(one.counts), " of ",
                        one.counts.values, what));
  return lines;
}

std::string missing_value_summary(const std::vector<FeatureLookups>& lookups) {
  std::string text;
  for (const FeatureLookups& one : reported(lookups))
    text += cat(text.empty() ? "" : ", ", printable(one.feature), " ", percent(one.counts));
  return text;
}

}  // namespace emblem
