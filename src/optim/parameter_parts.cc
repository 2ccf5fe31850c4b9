#include "optim/parameter_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kMostShown = 100;  // parameters of a pattern that are shown

std::regex regex_of(const config::PartOptimizer& part) {
  const std::string& pattern = part.regex_pattern();
  EMBLEM_REQUIRE(!pattern.empty(),
                 "dense_optimizer.part_optimizers: regex_pattern is missing; give a regular "
                 "expression for names of parameters");
  try {
#ifdef __GLIBCXX__
    // In polynomial time, whatever the pattern; it has no back-references.
    return std::regex(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
#else
    return std::regex(pattern);
#endif
  } catch (const std::regex_error& error) {
    throw Error(
        ErrorCode::kInvalidArgument,
        cat("dense_optimizer.part_optimizers: regex_pattern \"",
            printable(pattern.substr(0, kMostShown)), pattern.size() > kMostShown ? "..." : "",
            "\" is not a regular expression: ", error.what()));
  }
}

void append(const WeightRange& range, std::vector<WeightRange>& ranges) {
  if (!ranges.empty() && ranges.back().end == range.begin)
    ranges.back().end = range.end;
  else
    ranges.push_back(range);
}

[[noreturn]] void refuse(const std::string& pattern, std::span<const NamedRange> parameters) {
  constexpr size_t kShown = 20;
  std::vector<std::string> names;
  for (const NamedRange& parameter : parameters) names.push_back(parameter.name);
  const auto nearest = nearest_name(pattern, names);
  const size_t shown = std::min(names.size(), kShown);
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("dense_optimizer.part_optimizers: regex_pattern \"{}\" matches no "
                  "parameter that is not matched by an earlier one{}; the model has {}{}",
                  printable(pattern), nearest ? cat(" (did you mean \"", *nearest, "\"?)") : "",
                  joined(std::span(names).first(shown)),
                  shown < names.size() ? cat(" and ", names.size() - shown, " more") : ""));
}

}  // namespace

std::vector<std::vector<WeightRange>> group_parameters(std::span<const NamedRange> parameters,
                                                       const config::DenseOptimizer& optimizer) {
  std::vector<std::regex> patterns;
  for (const config::PartOptimizer& part : optimizer.part_optimizers())
    patterns.push_back(regex_of(part));
  std::vector<std::vector<WeightRange>> groups(patterns.size() + 1);
  for (const NamedRange& parameter : parameters) {
    const auto found = std::find_if(
        patterns.begin(), patterns.end(),
        [&](const std::regex& pattern) { return std::regex_match(parameter.name, pattern); });
    const size_t group = found == patterns.end() ? 0 : found - patterns.begin() + 1;
    append(parameter.range, groups[group]);
  }
  for (size_t i = 0; i < patterns.size(); ++i)
    if (groups[i + 1].empty())
      refuse(optimizer.part_optimizers(static_cast<int>(i)).regex_pattern(), parameters);
  return groups;
}

}  // namespace emblem
