// serve/pipeline_servable.h - a model that Emblem trained, from the folder that emblem export
// wrote.
#pragma once

#include <memory>
#include <string>

#include "serve/servable.h"

namespace emblem {

struct ServableOptions {
  int threads = 1;  // of each engine
};

// Opens a version folder: verifies its files, reads tables into memory, keeps the dense parameters.
std::unique_ptr<Servable> open_pipeline(const std::string& folder, const ServableOptions& options);

// The servable without tables and parameters, which is all that a model configuration needs.
std::unique_ptr<Servable> describe_pipeline(const std::string& folder);

}  // namespace emblem
