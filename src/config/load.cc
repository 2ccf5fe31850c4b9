#include "config/load.h"

#include <filesystem>

#include "config/assets.h"
#include "config/input_fields.h"
#include "config/override.h"
#include "config/parse_text.h"
#include "config/runs.h"
#include "config/semantics.h"
#include "core/file.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// wide_deep is EasyRec's name of group_type.
void rename_wide_deep(PipelineConfig* config) {
  if (!config->has_model_config()) return;
  for (auto& group : *config->mutable_model_config()->mutable_feature_groups()) {
    if (!group.has_wide_deep()) continue;
    EMBLEM_REQUIRE(!group.has_group_type() || group.group_type() == group.wide_deep(),
                   "feature group \"", printable(group.group_name()), "\" has group_type ",
                   config::FeatureGroupType_Name(group.group_type()), " and wide_deep ",
                   config::FeatureGroupType_Name(group.wide_deep()),
                   ", which mean the same; keep group_type");
    group.set_group_type(group.wide_deep());
    group.clear_wide_deep();
  }
}

}  // namespace

PipelineConfig load_pipeline(const std::string& path, std::span<const std::string> overrides) {
  PipelineConfig config = parse_pipeline(read_text_file(path), path, overrides);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  find_assets(folder.empty() ? "." : folder, &config);
  return config;
}

PipelineConfig parse_pipeline(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides) {
  PipelineConfig config;
  parse_text(text, {name, ""}, &config);
  for (const std::string& assignment : overrides) apply_override(assignment, &config);
  try {
    rename_wide_deep(&config);
    if (config.has_data_config()) expand_input_fields_str(config.mutable_data_config());
    expand_runs(&config);
  } catch (const Error& error) {
    throw Error(error.code(), cat(name, ": ", error.what()));
  }
  return config;
}

PipelineConfig load_stored_pipeline(const std::string& folder,
                                    std::span<const std::string> overrides) {
  const std::string path = folder + "/pipeline.config";
  PipelineConfig config = load_pipeline(path);
  const uint32_t version =
      config.has_semantics_version() ? config.semantics_version() : kOldestSemantics;
  config = load_pipeline(path, overrides);
  EMBLEM_REQUIRE(!config.has_semantics_version() || config.semantics_version() == version, path,
                 " has semantics_version ", version, ", which cannot be changed to ",
                 config.semantics_version());
  config.set_semantics_version(version);
  return config;
}

}  // namespace emblem
