// serve/repository/load_request.h - what a client asks for when it loads a model.
#pragma once

#include <map>
#include <string>

namespace emblem {

struct ModelLoadRequest {
  std::string config;                        // a ModelConfig as JSON; empty: the repository's
  std::map<std::string, std::string> files;  // bytes by path; empty: the repository's
};

// From the parameters of the protocol: "config", and "file:PATH" for each file. Throws
// kInvalidArgument for files without a configuration, kUnsupported for other parameters.
ModelLoadRequest parse_load_request(const std::string& model,
                                    const std::map<std::string, std::string>& parameters);

}  // namespace emblem
