#include "config/load.h"

#include "config/override.h"
#include "config/parse_text.h"
#include "config/runs.h"
#include "config/semantics.h"
#include "core/file.h"
#include "emblem/error.h"

namespace emblem {

PipelineConfig load_pipeline(const std::string& path, std::span<const std::string> overrides) {
  return parse_pipeline(read_text_file(path), path, overrides);
}

PipelineConfig parse_pipeline(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides) {
  PipelineConfig config;
  parse_text(text, {name, ""}, &config);
  for (const std::string& assignment : overrides) apply_override(assignment, &config);
  try {
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
