#include "config/sharding_types.h"

#include <algorithm>
#include <map>

#include "config/feature_settings.h"
#include "config/features.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

const std::vector<std::string> kSupported = {"row_wise", "table_wise", "data_parallel"};
const std::vector<std::string> kUnsupported = {"column_wise", "table_row_wise", "table_column_wise",
                                               "grid_shard"};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

const config::ParameterConstraints* own_constraints(const config::FeatureConfig& feature) {
  const google::protobuf::Message& message = message_of(feature);
  const auto* field = message.GetDescriptor()->FindFieldByName("embedding_constraints");
  if (field == nullptr || !message.GetReflection()->HasField(message, field)) return nullptr;
  return static_cast<const config::ParameterConstraints*>(
      &message.GetReflection()->GetMessage(message, field));
}

ShardingKinds kinds_of(const config::ParameterConstraints& constraints, const std::string& where) {
  ShardingKinds kinds;
  if (constraints.sharding_types().empty()) return kinds;
  kinds = {.row_wise = false, .table_wise = false, .data_parallel = false, .is_given = true};
  for (const std::string& word : constraints.sharding_types()) {
    kinds.row_wise |= word == "row_wise";
    kinds.table_wise |= word == "table_wise";
    kinds.data_parallel |= word == "data_parallel";
    if (contains(kUnsupported, word)) kinds.unsupported.push_back(word);
    EMBLEM_REQUIRE(contains(kSupported, word) || contains(kUnsupported, word), where,
                   ".sharding_types has \"", printable(word), "\"; expected ", joined(kSupported));
  }
  if (!kinds.row_wise && !kinds.table_wise && !kinds.data_parallel)
    kinds.row_wise = kinds.table_wise = kinds.data_parallel = true;
  else
    kinds.unsupported.clear();
  return kinds;
}

}  // namespace

ShardingKinds sharding_kinds_of(const config::FeatureConfig& feature,
                                const config::TrainConfig& train) {
  if (const config::ParameterConstraints* own = own_constraints(feature))
    if (!own->sharding_types().empty())
      return kinds_of(*own, cat("feature ", settings_of(feature).name, ": embedding_constraints"));
  return kinds_of(train.global_embedding_constraints(),
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
                        " are not supported; their tables are placed as if none were given (",
                        "supported: ", joined(kSupported), ")"));
  }
  return lines;
}

}  // namespace emblem
