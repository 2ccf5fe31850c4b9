// comm/threads.h - ranks that are threads of one process.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace emblem {

inline constexpr double kCollectiveSeconds = 600;  // default time limit of a collective

// The communicators of `size` threads, by rank. Pieces are copied by the rank that receives them.
// CPU memory.
std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    int size, double collective_seconds = kCollectiveSeconds);

// Runs `body` on one thread for each rank and returns when all have ended. When one throws, the
// collectives of the others throw RankError; the error of the rank that failed first is rethrown.
void run_thread_ranks(int size, const std::function<void(Communicator&)>& body,
                      double collective_seconds = kCollectiveSeconds);

}  // namespace emblem
