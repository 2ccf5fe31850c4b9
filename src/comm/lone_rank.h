// comm/lone_rank.h - the communicator of a process that is its only rank.
#pragma once

#include "comm/communicator.h"

namespace emblem {

// Exchanges nothing but own pieces, which are copied. It has no state: one object serves all
// worlds, and any thread may use it.
Communicator& lone_rank();

}  // namespace emblem
