// serve/engine/model_parameters.h - the parameters of a config.pbtxt.
#pragma once

#include <cstdlib>
#include <string>

#include "emblem/error.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {

// Null: there is none of that name.
inline const std::string* find_parameter(const inference::ModelConfig& config, const char* name) {
  const auto found = config.parameters().find(name);
  return found == config.parameters().end() ? nullptr : &found->second.string_value();
}

// Throws kInvalidArgument for text that is not a number; `where` names the file.
inline double number_of(const std::string& text, const char* name, const std::string& where) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  EMBLEM_REQUIRE(!text.empty() && *end == '\0', where, ": parameter ", name, " is '", text,
                 "'; expected a number");
  return value;
}

}  // namespace emblem
