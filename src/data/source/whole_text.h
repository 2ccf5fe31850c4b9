// data/source/whole_text.h - small text files, here or in a remote store.
#pragma once

#include <string>

#include "data/source/storage.h"

namespace emblem {

// The whole of a file, which may be an object of a remote store. `storage` may be null for a file on
// this machine.
std::string read_whole_text(const std::string& path, const Storage& storage);

}  // namespace emblem
