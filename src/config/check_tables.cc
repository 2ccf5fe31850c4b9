#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/check_model.h"
#include "config/groups.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Name and value, as messages show them.
using Settings = std::vector<std::pair<std::string, std::string>>;

std::string value_text(const Message& message, const FieldDescriptor& field) {
  if (!message.GetReflection()->HasField(message, &field) && !field.has_default_value())
    return "unset";
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, -1, &text);
  return text;
}

// Every field of `message` that is not repeated, with its default where it is not set.
void flatten(const Message& message, const std::string& path, Settings& settings) {
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor& field = *descriptor->field(i);
    if (field.is_repeated()) continue;
    const std::string name = path + "." + field.name();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      flatten(message.GetReflection()->GetMessage(message, &field), name, settings);
    } else {
      settings.emplace_back(name, value_text(message, field));
    }
  }
}

// How many rows the table has, or that it grows.
std::string rows_of(const config::FeatureConfig& feature) {
  if (feature.has_raw_feature())
    return cat(feature.raw_feature().boundaries_size() + 1, " buckets");
  const config::IdFeature& id = feature.id_feature();
  if (id.has_num_buckets()) return cat("num_buckets ", id.num_buckets());
  if (id.has_hash_bucket_size()) return cat("hash_bucket_size ", id.hash_bucket_size());
  return "dynamicemb";
}

// Everything that a table takes from its features; `feature` is the id or raw feature in `config`.
Settings table_settings(const config::FeatureConfig& config) {
  const Message& feature = config.has_id_feature()
                               ? static_cast<const Message&>(config.id_feature())
                               : static_cast<const Message&>(config.raw_feature());
  Settings settings;
  for (const char* name : {"init_fn", "trainable", "data_type"}) {
    const FieldDescriptor& field = *feature.GetDescriptor()->FindFieldByName(name);
    settings.emplace_back(name, value_text(feature, field));
  }
  if (config.id_feature().has_dynamicemb())
    flatten(config.id_feature().dynamicemb(), "dynamicemb", settings);
  return settings;
}

[[noreturn]] void refuse(const FeatureSpec& first, const FeatureSpec& second,
                         const std::string& difference) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("features \"", first.name, "\" and \"", second.name, "\" share table \"",
                  table_name_of(first.config), "\", but have ", difference,
                  "; make them equal or give them their own embedding_name"));
}

void compare(const FeatureSpec& first, const FeatureSpec& second, const Semantics& semantics) {
  const auto dim = [](const FeatureSpec& spec) {
    const int64_t width = embedding_dim_of(spec.config);
    return width > 0 ? std::to_string(width) : "unset";
  };
  if (dim(first) != dim(second))
    refuse(first, second, cat("embedding_dim ", dim(first), " and ", dim(second)));
  if (rows_of(first.config) != rows_of(second.config))
    refuse(first, second, cat(rows_of(first.config), " and ", rows_of(second.config)));
  if (!semantics.strict_checks) return;
  const Settings ours = table_settings(first.config), theirs = table_settings(second.config);
  const auto [mine, other] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (mine == ours.end()) return;
  refuse(first, second, cat(mine->first, " ", mine->second, " and ", other->second));
}

// Wide tables are called NAME_wide, which must not be the name of a deep one.
void check_wide_names(const config::ModelConfig& model, const FeatureLayout& layout) {
  std::map<std::string, std::string> deep;  // table -> feature
  for (const FeatureSpec& spec : layout.features) {
    if (spec.kind == FeatureKind::kSparse && is_in_group(model, spec.name, config::DEEP))
      deep.emplace(table_name_of(spec.config), spec.name);
  }
  for (const FeatureSpec& spec : layout.features) {
    if (spec.kind != FeatureKind::kSparse || !is_in_group(model, spec.name, config::WIDE)) continue;
    const std::string wide = table_name_of(spec.config) + "_wide";
    const auto found = deep.find(wide);
    EMBLEM_REQUIRE(found == deep.end(), "the wide table of feature \"", spec.name,
                   "\" is called \"", wide, "\", as is the table of feature \"", found->second,
                   "\"; give one of them another embedding_name");
  }
}

}  // namespace

void check_shared_tables(const config::PipelineConfig& config, const FeatureLayout& layout) {
  std::map<std::string, const FeatureSpec*> owners;
  for (const FeatureSpec& spec : layout.features) {
    if (spec.kind != FeatureKind::kSparse) continue;
    const auto [owner, is_new] = owners.emplace(table_name_of(spec.config), &spec);
    if (!is_new) compare(*owner->second, spec, layout.semantics);
  }
  check_wide_names(config.model_config(), layout);
}

}  // namespace emblem
