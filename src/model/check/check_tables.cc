#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/feature/sequences.h"
#include "config/load/field_text.h"
#include "emblem/error.h"
#include "model/check/check_model.h"
#include "model/layers/groups.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Name and value, as messages show them.
using Settings = std::vector<std::pair<std::string, std::string>>;

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
      settings.emplace_back(name, value_or_unset(message, field));
    }
  }
}

// How many rows the table has, or that it grows.
std::string rows_text(const FeatureSpec& spec) {
  const std::vector<std::string> ways = row_settings(spec.settings);
  const std::string way = ways.empty() ? "" : ways.front();
  if (way == "boundaries") return cat(spec.rows, " buckets");
  if (way == "num_buckets" || way == "hash_bucket_size") return cat(way, " ", spec.rows);
  return spec.rows == 0 ? way : cat(way, " with ", spec.rows, " rows");
}

// Everything that a table takes from its features.
Settings table_settings(const FeatureSpec& spec) {
  const Message& feature = message_of(spec.config);
  Settings settings;
  for (const char* name : {"init_fn", "trainable", "data_type"}) {
    const FieldDescriptor& field = *feature.GetDescriptor()->FindFieldByName(name);
    settings.emplace_back(name, value_or_unset(feature, field));
  }
  if (spec.settings.dynamicemb) flatten(*spec.settings.dynamicemb, "dynamicemb", settings);
  if (spec.settings.zch) flatten(*spec.settings.zch, "zch", settings);
  return settings;
}

[[noreturn]] void refuse(const FeatureSpec& first, const FeatureSpec& second,
                         const std::string& difference) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("features \"", first.name, "\" and \"", second.name, "\" share table \"",
                  table_name_of(first.config), "\", but have ", difference,
                  "; make them equal or give them their own embedding_name"));
}

// Vocabularies, buckets and numbers may share a table of fixed size. Rows of a zch table move.
bool has_equal_rows(const FeatureSpec& first, const FeatureSpec& second) {
  return first.rows > 0 && first.rows == second.rows &&
         first.settings.zch.has_value() == second.settings.zch.has_value();
}

void compare(const FeatureSpec& first, const FeatureSpec& second, const Semantics& semantics) {
  const auto dim = [](const FeatureSpec& spec) {
    const int64_t width = embedding_dim_of(spec.config);
    return width > 0 ? std::to_string(width) : "unset";
  };
  if (dim(first) != dim(second))
    refuse(first, second, cat("embedding_dim ", dim(first), " and ", dim(second)));
  if (rows_text(first) != rows_text(second) && !has_equal_rows(first, second))
    refuse(first, second, cat(rows_text(first), " and ", rows_text(second)));
  if (!semantics.strict_checks) return;
  const Settings ours = table_settings(first), theirs = table_settings(second);
  const auto [mine, other] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (mine == ours.end()) return;
  refuse(first, second, cat(mine->first, " ", mine->second, " and ", other->second));
}

std::set<std::string> features_of_sequence_groups(const config::ModelConfig& model) {
  std::set<std::string> names;
  for (const SequenceGroup& group : sequence_groups_of(model))
    names.insert(group.features.begin(), group.features.end());
  return names;
}

std::set<std::string> features_of_plain_groups(const config::ModelConfig& model) {
  std::set<std::string> names;
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    if (group.group_type() == config::DEEP || group.group_type() == config::WIDE)
      names.insert(group.feature_names().begin(), group.feature_names().end());
  }
  return names;
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
  const std::set<std::string> elements = features_of_sequence_groups(config.model_config());
  const std::set<std::string> bags = features_of_plain_groups(config.model_config());
  // Sequence groups have tables of their own, even for equal names.
  std::map<std::string, const FeatureSpec*> bag_owners, element_owners;
  const auto add = [&](std::map<std::string, const FeatureSpec*>& owners, const FeatureSpec& spec) {
    const auto [owner, is_new] = owners.emplace(table_name_of(spec.config), &spec);
    if (!is_new) compare(*owner->second, spec, layout.semantics);
  };
  for (const FeatureSpec& spec : layout.features) {
    if (spec.kind != FeatureKind::kSparse) continue;
    const bool in_sequence_group = elements.contains(spec.name);
    if (in_sequence_group) add(element_owners, spec);
    if (!in_sequence_group || bags.contains(spec.name)) add(bag_owners, spec);
  }
  check_wide_names(config.model_config(), layout);
}

}  // namespace emblem
