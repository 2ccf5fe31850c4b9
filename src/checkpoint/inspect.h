// checkpoint/inspect.h - what a checkpoint holds, for people.
#pragma once

#include <string>

#include "data/source/storage.h"

namespace emblem {

// Whether `path` is a checkpoint, or a model dir that holds one; an address is looked at through
// `storage`.
bool is_checkpoint(const std::string& path, const Storage& storage);

// Verifies every file, then says step, model, metrics, parameters and tables, a line each. Throws
// as open_checkpoint does.
std::string describe_checkpoint(const std::string& path, const Storage& storage);

}  // namespace emblem
