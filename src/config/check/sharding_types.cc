#include "config/check/sharding_types.h"

#include <algorithm>
#include <map>

#include "config/feature/feature_settings.h"
#include "config/feature/features.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

const std::vector<std::string> kKinds = {"row_wise", "table_wise", "column_wise", "data_parallel"};
const std::vector<std::string> kUnsupported = {"table_row_wise", "table_column_wise", "grid_shard"};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const config::ParameterConstraints* own_constraints(const config::FeatureConfig& feature) {
  const google::protobuf::Message& message = message_of(feature);
  const auto* field = message.GetDescriptor()->FindFieldByName("embedding_constraints");
  if (field == nullptr || !message.GetReflection()->HasField(message, field)) return nullptr;
  return static_cast<const config::ParameterConstraints*>(
      &message.GetReflection()->GetMessage(message, field));
}

// Optimizers with one value for a whole row need all of its columns in one place.
std::vector<std::string> supported_by(const config::TrainConfig& train) {
  std::vector<std::string> kinds = kKinds;
  const config::SparseOptimizer& optimizer = train.sparse_optimizer();
  if (optimizer.has_rowwise_adagrad_optimizer() || optimizer.has_partial_rowwise_adam_optimizer())
    std::erase(kinds, "column_wise");
  return kinds;
}

ShardingKinds kinds_of(const config::ParameterConstraints& constraints,
                       const std::vector<std::string>& supported, const std::string& where) {
  std::vector<std::string> asked, unsupported;
  for (const std::string& word : constraints.sharding_types()) {
    EMBLEM_REQUIRE(contains(kKinds, word) || contains(kUnsupported, word), where,
                   ".sharding_types has \"", printable(word), "\"; expected ", joined(kKinds));
    (contains(supported, word) ? asked : unsupported).push_back(word);
  }
  if (asked.empty()) return {.unsupported = unsupported};
  return {.row_wise = contains(asked, "row_wise"),
          .table_wise = contains(asked, "table_wise"),
          .column_wise = contains(asked, "column_wise"),
          .data_parallel = contains(asked, "data_parallel")};
}

}  // namespace

ShardingKinds sharding_kinds_of(const config::FeatureConfig& feature,
                                const config::TrainConfig& train) {
  const std::vector<std::string> supported = supported_by(train);
  if (const config::ParameterConstraints* own = own_constraints(feature))
    if (!own->sharding_types().empty())
      return kinds_of(*own, supported,
                      cat("feature ", settings_of(feature).name, ": embedding_constraints"));
  return kinds_of(train.global_embedding_constraints(), supported,
                  "train_config.global_embedding_constraints");
}

std::vector<std::string> unsupported_sharding(const config::PipelineConfig& config) {
  std::map<std::string, std::vector<std::string>> features;  // by what they ask for
  for (const FeatureSpec& feature : layout_of(config).features) {
    if (feature.kind != FeatureKind::kSparse) continue;
    const ShardingKinds kinds = sharding_kinds_of(feature.config, config.train_config());
    if (!kinds.unsupported.empty()) features[joined(kinds.unsupported)].push_back(feature.name);
  }
  std::vector<std::string> lines;
  for (const auto& [kinds, names] : features) {
    const std::string others =
        names.size() > 1 ? cat(" and ", names.size() - 1, " other features") : "";
    lines.push_back(cat("sharding_types ", kinds, " of feature ", names[0], others,
                        " are not supported; their tables are placed as if none were given ",
                        "(supported with this sparse_optimizer: ",
                        joined(supported_by(config.train_config())), ")"));
  }
  return lines;
}

}  // namespace emblem
