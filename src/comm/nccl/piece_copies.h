// comm/nccl/piece_copies.h - what thread ranks need to copy each other's GPU memory. CUDA builds
// only.
#pragma once

#include <cstddef>
#include <set>
#include <span>

#include "core/device/context.h"
#include "core/device/stream.h"

namespace emblem::cuda {

// The GPU of a rank and two points in the work of its stream, which the streams of other ranks wait
// for. Made by the rank's thread, whose GPU is that of the rank's stream.
class RankStream {
 public:
  RankStream();

  int gpu() const { return gpu_; }
  // Copies from memory of another GPU go over their link from now on, where there is one.
  void reach(int other_gpu);

  Event ready;  // its memory, or what it sends, may be used
  Event used;   // it has used the memory of others, or has copied what it receives

 private:
  int gpu_ = 0;
  std::set<int> reached_;
};

struct PieceCopy {
  void* to;
  const void* from;
  size_t bytes;
};

// Copies within the memory of one GPU with one kernel for up to 32 pieces. Asynchronous.
void copy_pieces(const Context& context, std::span<const PieceCopy> copies);

}  // namespace emblem::cuda
