#include "data/feature/fg/combiner.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr std::pair<const char*, Combiner> kCombiners[] = {
    {"sum", Combiner::kSum},        {"mean", Combiner::kMean},     {"avg", Combiner::kMean},
    {"min", Combiner::kMin},        {"max", Combiner::kMax},       {"count", Combiner::kCount},
    {"gap_min", Combiner::kGapMin}, {"gap_max", Combiner::kGapMax}};

double gap_of(std::span<const double> values, Combiner combiner) {
  if (values.size() < 2) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i + 1 < sorted.size(); ++i) sorted[i] = sorted[i + 1] - sorted[i];
  sorted.pop_back();
  return combiner == Combiner::kGapMin ? *std::min_element(sorted.begin(), sorted.end())
                                       : *std::max_element(sorted.begin(), sorted.end());
}

}  // namespace

Combiner parse_combiner(const std::string& text, const std::string& feature) {
  std::string name = text;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.empty()) return Combiner::kNone;
  std::string list;
  for (const auto& [known, combiner] : kCombiners) {
    if (name == known) return combiner;
    list += (list.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(ErrorCode::kInvalidArgument, cat("feature \"", feature, "\": combiner is \"",
                                               printable(text), "\", expected one of ", list));
}

double combine_values(Combiner combiner, std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  switch (combiner) {
    case Combiner::kNone:
      return values[0];
    case Combiner::kSum:
      return std::accumulate(values.begin(), values.end(), 0.0);
    case Combiner::kMean:
      return std::accumulate(values.begin(), values.end(), 0.0) / count;
    case Combiner::kMin:
      return *std::min_element(values.begin(), values.end());
    case Combiner::kMax:
      return *std::max_element(values.begin(), values.end());
    case Combiner::kCount:
      return count;
    case Combiner::kGapMin:
    case Combiner::kGapMax:
      break;
  }
  return gap_of(values, combiner);
}

}  // namespace emblem
