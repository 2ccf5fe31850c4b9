// model/lookup/staged_lookup.h - rows of tables that only the host can read, for a model on a GPU.
#pragma once

#include <memory>

#include "embedding/lookup.h"

namespace emblem {

// Keys are copied to host memory, looked up there by `host`, and the rows copied to the GPU. Each
// forward waits for its copies. For evaluation only.
std::unique_ptr<Lookup> make_staged_lookup(std::unique_ptr<Lookup> host);

}  // namespace emblem
