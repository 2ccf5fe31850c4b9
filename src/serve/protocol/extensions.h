// serve/protocol/extensions.h - the protocol's extensions that this server has, as it lists them to
// clients.
#pragma once

#include <string>
#include <vector>

#include "core/device/device.h"

namespace emblem {

// `shared_memory`: whether the server allows it.
inline std::vector<std::string> protocol_extensions(bool shared_memory) {
  std::vector<std::string> names;
  for (const char* name :
       {"classification", "model_repository", "model_repository(unload_dependents)",
        "schedule_policy", "model_configuration", "binary_tensor_data", "parameters", "statistics",
        "trace", "logging"})
    names.emplace_back(name);
  if (shared_memory) names.emplace_back("system_shared_memory");
  if (shared_memory && kHasCuda) names.emplace_back("cuda_shared_memory");
  return names;
}

}  // namespace emblem
