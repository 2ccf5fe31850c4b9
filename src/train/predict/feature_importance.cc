#include "train/predict/feature_importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/memory/host_copy.h"
#include "core/text/text.h"

namespace emblem {
namespace {

// A group has its features, then the outputs of its sequence encoders.
std::string part_name(const config::FeatureGroupConfig& group, int64_t part) {
  const int names = group.feature_names_size();
  return part < names ? group.feature_names(static_cast<int>(part))
                      : cat("sequence encoder ", part - names);
}

}  // namespace

std::vector<FeatureImportance> feature_importance(const Context& context,
                                                  const config::ModelConfig& model, Graph& graph) {
  std::vector<FeatureImportance> found;
  if (!model.has_variational_dropout()) return found;
  const std::vector<float> values = to_host(context, graph.parameters());
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    const auto first = static_cast<std::ptrdiff_t>(found.size());
    const std::string prefix = cat("variational_dropout.", group.group_name(), ".");
    for (const Parameter& parameter : graph.parameter_list()) {
      if (!parameter.name.starts_with(prefix)) continue;
      const int64_t columns = parameter.rows * parameter.cols;
      for (int64_t i = 0; i < columns; ++i) {
        const double logit = values[static_cast<size_t>(parameter.begin + i)];
        found.push_back({group.group_name(), part_name(group, i), 1.0 / (1.0 + std::exp(-logit))});
      }
    }
    std::stable_sort(found.begin() + first, found.end(),
                     [](const auto& a, const auto& b) { return a.drop < b.drop; });
  }
  return found;
}

std::vector<std::string> to_lines(const std::vector<FeatureImportance>& features) {
  std::vector<std::string> lines;
  std::string group;
  for (const FeatureImportance& one : features) {
    const bool first = lines.empty() || one.group != group;
    if (first)
      lines.push_back(
          cat("variational dropout of group ", printable(one.group), ", p by feature: "));
    group = one.group;
    lines.back() += fmt::format("{}{} {:.3f}", first ? "" : ", ", printable(one.feature), one.drop);
  }
  return lines;
}

}  // namespace emblem
