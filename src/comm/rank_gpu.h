// comm/rank_gpu.h - which GPU a rank that is a process uses.
#pragma once

#include <optional>
#include <string>

#include "comm/communicator.h"

namespace emblem {

// Ranks of a host use its GPUs in turn: the process sees none but its own from now on, as GPU 0 of
// every thread. For use before CUDA is. Thread ranks and a rank alone on its host keep what they
// see.
void choose_gpu(const Communicator& ranks);

// What CUDA_VISIBLE_DEVICES is to be; nothing where it can stay. `visible`: what it is, if it is
// set; `gpus`: of the machine.
std::optional<std::string> gpu_of_rank(int local_rank, const std::optional<std::string>& visible,
                                       int gpus);

}  // namespace emblem
