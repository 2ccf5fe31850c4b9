// comm/nccl/rank_gpu.h - which GPU a rank that is a process uses.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/system/process.h"

namespace emblem {

// Ranks of a host use its GPUs in turn: the process sees none but its own from now on, as GPU 0 of
// every thread. For use before CUDA is. Thread ranks and a rank alone on its host keep what they
// see; without `set_variable` all do.
void choose_gpu(const Communicator& ranks, const SetVariable& set_variable);

// What CUDA_VISIBLE_DEVICES is to be; nothing where it can stay. `visible`: what it is, if it is
// set; `gpus`: of the machine.
std::optional<std::string> gpu_of_rank(int local_rank, const std::optional<std::string>& visible,
                                       int gpus);

using GpuId = std::array<char, 16>;  // no other GPU anywhere has the same

// The GPU of each rank, from that of this one; all ranks call it.
std::vector<GpuId> gather_gpus(Communicator& ranks, GpuId mine);

// Whether a rank uses the GPU of another one, too.
bool shares_gpu(std::span<const GpuId> gpus, size_t rank);

// How many ranks do.
size_t ranks_that_share(std::span<const GpuId> gpus);

}  // namespace emblem
