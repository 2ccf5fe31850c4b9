#include "config/load.h"

#include "config/override.h"
#include "config/parse_text.h"
#include "config/runs.h"
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

}  // namespace emblem
