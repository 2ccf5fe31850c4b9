// checkpoint/inspect.h - what a checkpoint holds, for people.
#pragma once

#include <string>

namespace emblem {

// Whether `path` is a checkpoint, or a model dir that holds one.
bool is_checkpoint(const std::string& path);

// Verifies every file, then says step, model, metrics, parameters and tables, a line each. Throws
// as open_checkpoint does.
std::string describe_checkpoint(const std::string& path);

}  // namespace emblem
