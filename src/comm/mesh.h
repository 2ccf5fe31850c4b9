// comm/mesh.h - data connections between all ranks of a job.
#pragma once

#include <vector>

#include "comm/join.h"
#include "comm/watch.h"

namespace emblem {

// By rank; none to itself. Each rank connects to the lower ones and accepts the higher ones;
// connections that do not belong to the job are dropped. Throws RankError when a rank fails
// meanwhile, kUnavailable after `seconds`.
std::vector<FileDescriptor> connect_mesh(Membership& membership, const Watch& watch,
                                         double seconds);

}  // namespace emblem
