// serve/protocol/extensions.h - the protocol's extensions that this server has, as it lists them to
// clients.
#pragma once

#include <string>
#include <vector>

#include "core/device.h"

namespace emblem {

inline std::vector<std::string> protocol_extensions() {
  std::vector<std::string> names;
  for (const char* name :
       {"classification", "model_repository", "model_repository(unload_dependents)",
        "schedule_policy", "model_configuration", "system_shared_memory", "binary_tensor_data",
        "parameters", "statistics"})
    names.emplace_back(name);
  if (kHasCuda) names.emplace_back("cuda_shared_memory");
  return names;
}

}  // namespace emblem
