// comm/threads/threads.h - ranks that are threads of one process.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace emblem {

inline constexpr double kCollectiveSeconds = 600;  // default time limit of a collective

// The communicators of `size` threads, by rank. Pieces are copied by the rank that receives them:
// host memory, or memory of GPUs. Ranks may share a GPU, each with a stream of its own, or have one
// each; the GPU of a rank's thread is that of its stream and does not change. On a GPU the threads
// wait for each other but not for the GPU: streams wait for streams. `hosts`: names by rank that
// stand for hosts; empty: all ranks are on this machine.
std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    int size, double collective_seconds = kCollectiveSeconds,
    const std::vector<std::string>& hosts = {});

// Runs `body` on one thread for each rank and returns when all have ended. When one throws, the
// collectives of the others throw RankError; the error of the rank that failed first is rethrown.
void run_thread_ranks(int size, const std::function<void(Communicator&)>& body,
                      double collective_seconds = kCollectiveSeconds,
                      const std::vector<std::string>& hosts = {});

}  // namespace emblem
