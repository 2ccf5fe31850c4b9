#include "model/check/check_model.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "config/check/check_feature.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/models.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void check_mlp(const config::MLP& mlp, const std::string& path) {
  for (int i = 0; i < mlp.hidden_units_size(); ++i) {
    EMBLEM_REQUIRE(mlp.hidden_units(i) > 0, path, ".hidden_units[", i,
                   "] is 0, expected at least 1");
  }
  const int ratios = mlp.dropout_ratio_size(), layers = mlp.hidden_units_size();
  EMBLEM_REQUIRE(ratios <= 1 || ratios == layers, path, ".dropout_ratio has ", ratios,
                 " numbers, expected one, or one for each of the ", layers, " hidden_units");
  for (const float ratio : mlp.dropout_ratio()) {
    EMBLEM_REQUIRE(ratio >= 0 && ratio < 1, path, ".dropout_ratio is ", ratio,
                   ", expected at least 0 and less than 1");
  }
  EMBLEM_REQUIRE(!mlp.use_bn() || !mlp.use_ln(), path,
                 " has both use_bn and use_ln; keep one of them");
}

// Finds every MLP below `message`, whatever the model.
void check_mlps(const Message& message, const std::string& path) {
  if (message.GetDescriptor() == config::MLP::descriptor()) {
    check_mlp(static_cast<const config::MLP&>(message), path);
    return;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string child = path + "." + field->name();
    if (!field->is_repeated()) {
      check_mlps(reflection->GetMessage(message, field), child);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      check_mlps(reflection->GetRepeatedMessage(message, field, i),
                 fmt::format("{}[{}]", child, i));
    }
  }
}

enum class VectorUse { kNeeded, kUnused };  // whether a model looks at embedding_dim

void check_group(const config::FeatureGroupConfig& group, const FeatureLayout& layout,
                 VectorUse vectors) {
  EMBLEM_REQUIRE(group.feature_names_size() > 0 || group.sequence_groups_size() > 0,
                 "feature group \"", group.group_name(), "\" has no feature_names");
  std::set<std::string> seen;
  for (const std::string& name : group.feature_names()) {
    EMBLEM_REQUIRE(seen.insert(name).second, "feature group \"", group.group_name(), "\" names \"",
                   name, "\" twice");
    try {
      const FeatureSpec& spec = layout.find(name);
      require_in_batches(spec.settings);
      const bool has_vector = spec.kind == FeatureKind::kDense || spec.settings.embedding_dim > 0;
      EMBLEM_REQUIRE(vectors == VectorUse::kUnused || has_vector, "feature \"", name,
                     "\" has no embedding_dim");
    } catch (const Error& error) {
      throw Error(error.code(), cat("feature group \"", group.group_name(), "\": ", error.what()));
    }
  }
}

void check_groups(const config::PipelineConfig& config, const FeatureLayout& layout,
                  const ModelKind& kind) {
  const config::ModelConfig& model = config.model_config();
  const std::vector<GroupUse> uses = kind.groups(config);
  const bool all_wide = std::all_of(
      uses.begin(), uses.end(), [](const GroupUse& use) { return use.part == GroupPart::kWide; });
  EMBLEM_REQUIRE(model.feature_groups_size() > 0, "model_config has no feature_groups");
  std::set<std::string> names;
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    EMBLEM_REQUIRE(!group.group_name().empty(),
                   "a feature group of model_config has no group_name");
    EMBLEM_REQUIRE(names.insert(group.group_name()).second, "two feature groups are called \"",
                   group.group_name(), "\"");
    // A wide table has a dimension of its own, whatever the feature says.
    const bool wide = group.group_type() == config::WIDE || all_wide;
    check_group(group, layout, wide ? VectorUse::kUnused : VectorUse::kNeeded);
  }
}

// Numbers where a model reads embeddings alone would be ignored.
void check_numbers_are_read(const config::PipelineConfig& config, const FeatureLayout& layout,
                            const ModelKind& kind) {
  const config::ModelConfig& model = config.model_config();
  for (const GroupUse& use : kind.groups(config)) {
    if (use.part != GroupPart::kVectors) continue;
    for (const config::FeatureGroupConfig& group : model.feature_groups()) {
      if (group.group_name() != use.group) continue;
      for (const std::string& name : group.feature_names()) {
        EMBLEM_REQUIRE(layout.find(name).kind == FeatureKind::kSparse, "feature \"", name,
                       "\" is numeric, but ", kind.name, " reads only embeddings of group \"",
                       use.group,
                       "\"; give it boundaries and an embedding_dim, or move it to group \"",
                       use.for_numbers, "\"");
      }
    }
  }
}

void check_groups_exist(const config::PipelineConfig& config, const ModelKind& kind) {
  const config::ModelConfig& model = config.model_config();
  for (const GroupUse& use : kind.groups(config)) {
    EMBLEM_REQUIRE(!use.group.empty(), "a tower of ", kind.name,
                   " has no input; name a feature group");
    const config::FeatureGroupConfig* group = find_group(model, use.group);
    if (group == nullptr) {
      std::vector<std::string> names;
      for (const auto& each : model.feature_groups()) names.push_back(each.group_name());
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("model_config has no feature group \"{}\", which {} needs; it has {}",
                              printable(use.group), kind.name, joined(names)));
    }
    const bool is_sequence = group->group_type() == config::SEQUENCE;
    EMBLEM_REQUIRE(
        is_sequence == (use.part == GroupPart::kSequence), "feature group \"", printable(use.group),
        "\" is ", config::FeatureGroupType_Name(group->group_type()), ", but ", kind.name,
        use.part == GroupPart::kSequence ? " reads a sequence in it; set group_type: SEQUENCE"
                                         : " needs one value per row of it; set "
                                           "group_type: DEEP");
  }
}

}  // namespace

void check_model(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const config::ModelConfig& model = config.model_config();
  EMBLEM_REQUIRE(model.model_case() != config::ModelConfig::MODEL_NOT_SET,
                 "model_config names no model; give one of ", joined(supported_models()));
  const ModelKind& kind = *find_model(model);  // refuse_unsupported has seen it
  check_groups(config, layout, kind);
  check_mlps(model, "model_config");
  if (!layout.semantics.strict_checks) return;
  check_numbers_are_read(config, layout, kind);
  check_heads(config, layout);
  check_sequences(config, layout);
  check_groups_exist(config, kind);
  const float lambda = model.variational_dropout().regularization_lambda();
  EMBLEM_REQUIRE(!(lambda < 0), "model_config.variational_dropout.regularization_lambda is ",
                 lambda, ", expected at least 0");
  if (kind.check != nullptr) kind.check(config, layout);
}

}  // namespace emblem
