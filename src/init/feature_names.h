// init/feature_names.h - names of features for columns of any name, and text in pipeline files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

// A name for each column: its own where features and files may be called so, else with "_" for
// other characters, made different from all others by a number.
std::vector<std::string> feature_names_for(const std::vector<std::string>& columns);

// `text` in quotes, as protobuf text has it.
std::string proto_string(std::string_view text);

// `text` as one word of a shell command.
std::string shell_word(const std::string& text);

}  // namespace emblem
