// train/lookup_report.h - the share of each feature's values that found no row in its table.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"

namespace emblem {

// Larger shares are reported.
inline constexpr double kReportedMissingShare = 0.10;

double missing_share(const LookupCounts& counts);  // 0 without values

// Adds the counts of `more` to those of the same features and tables in `sum`.
void add_lookups(const std::vector<FeatureLookups>& more, std::vector<FeatureLookups>& sum);

// One entry per feature: of the tables that it reads, the one that lacks the most values.
std::vector<FeatureLookups> by_feature(const std::vector<FeatureLookups>& lookups);

enum class LookupPass { kTraining, kEvaluation };

// A line for each feature whose share is reported: "feature "city": 100.0 % of 5000 values have no
// row in its table (never seen in training?)".
std::vector<std::string> missing_value_lines(const std::vector<FeatureLookups>& lookups,
                                             LookupPass pass);

// All of them in one line, for logs: "city 100.0 %, user 31.2 %"; empty when there is none.
std::string missing_value_summary(const std::vector<FeatureLookups>& lookups);

}  // namespace emblem
