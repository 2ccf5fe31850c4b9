// train/learner/lookup_report.h - the share of each feature's values that found no row in its
// table.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"

namespace emblem {

// Larger shares are warned about.
inline constexpr double kReportedMissingShare = 0.10;

double missing_share(const LookupCounts& counts);  // 0 without values

// Adds the counts of `more` to those of the same features and tables in `sum`.
void add_lookups(const std::vector<FeatureLookups>& more, std::vector<FeatureLookups>& sum);

// One entry per feature: of the tables that it reads, the one that lacks the most values.
std::vector<FeatureLookups> by_feature(const std::vector<FeatureLookups>& lookups);

enum class LookupPass { kTraining, kEvaluation };

// One line with the features that lack values, the largest share first, and what to do; logged as
// a warning when a share is above kReportedMissingShare. Logs nothing when every value has a row.
void log_missing_values(const std::vector<FeatureLookups>& lookups, LookupPass pass);

// The features whose share is above kReportedMissingShare.
std::vector<std::string> features_to_report(const std::vector<FeatureLookups>& lookups);

}  // namespace emblem
