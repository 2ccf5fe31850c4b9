#include "train/learner/lookup_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/system/log.h"
#include "core/text/text.h"

namespace emblem {
namespace {

constexpr size_t kMostNamed = 8;

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

void log_missing_values(const std::vector<FeatureLookups>& lookups, LookupPass pass) {
  std::vector<FeatureLookups> features = by_feature(lookups);
  std::erase_if(features, [](const FeatureLookups& one) { return one.counts.missing == 0; });
  if (features.empty()) return;
  std::stable_sort(features.begin(), features.end(), [](const auto& a, const auto& b) {
    return missing_share(a.counts) > missing_share(b.counts);
  });
  std::string names;
  for (size_t i = 0; i < std::min(features.size(), kMostNamed); ++i)
    names +=
        cat(i == 0 ? "" : ", ", printable(features[i].feature), " ", percent(features[i].counts));
  if (features.size() > kMostNamed) names += cat(" and ", features.size() - kMostNamed, " more");
  const bool training = pass == LookupPass::kTraining;
  const std::string text =
      cat(training ? "training: " : "", "values without a row in their table: ", names);
  if (missing_share(features[0].counts) <= kReportedMissingShare) return log_info(text);
  log_warn(cat(text, training ? "; see frequency_admission_strategy and max_capacity"
                              : "; were they written differently in the training data?"));
}

std::vector<std::string> features_to_report(const std::vector<FeatureLookups>& lookups) {
  std::vector<std::string> names;
  for (const FeatureLookups& one : by_feature(lookups))
    if (missing_share(one.counts) > kReportedMissingShare) names.push_back(one.feature);
  return names;
}

}  // namespace emblem
