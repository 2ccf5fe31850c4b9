// embedding/cuda/table/occupancy.h - how many blocks of a kernel the GPU runs at once.
#pragma once

namespace emblem::cuda {

int resident_blocks(const void* kernel, int threads, int shared_bytes = 0);

}  // namespace emblem::cuda
