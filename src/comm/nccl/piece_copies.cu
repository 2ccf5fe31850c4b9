#include <algorithm>
#include <cstdint>

#include "comm/nccl/piece_copies.h"
#include "core/device/cuda_check.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr size_t kMostPieces = 32;                // pieces of one kernel: its arguments
constexpr size_t kBlockBytes = size_t{16} << 10;  // that a block copies at least
constexpr size_t kMostBlocks = 512;  // blocks for all pieces: enough for the rate of the memory

struct Pieces {
  PieceCopy copies[kMostPieces];
};

// `to` and `from` are at the same distance from a multiple of sizeof(Word).
template <class Word>
__device__ void copy_words(const PieceCopy& copy, size_t thread, size_t threads) {
  char* to = static_cast<char*>(copy.to);
  const char* from = static_cast<const char*>(copy.from);
  const size_t misaligned =
      (sizeof(Word) - reinterpret_cast<uintptr_t>(to) % sizeof(Word)) % sizeof(Word);
  const size_t head = min(copy.bytes, misaligned);
  const size_t words = (copy.bytes - head) / sizeof(Word);
  auto* to_words = reinterpret_cast<Word*>(to + head);
  const auto* from_words = reinterpret_cast<const Word*>(from + head);
#pragma unroll 4
  for (size_t i = thread; i < words; i += threads) to_words[i] = from_words[i];
  for (size_t i = thread; i < head; i += threads) to[i] = from[i];
  for (size_t i = head + words * sizeof(Word) + thread; i < copy.bytes; i += threads)
    to[i] = from[i];
}

// Blocks of one y copy one piece.
__global__ void copy_kernel(Pieces pieces) {
  const PieceCopy& copy = pieces.copies[blockIdx.y];
  const size_t thread = size_t{blockIdx.x} * kThreads + threadIdx.x;
  const size_t threads = size_t{gridDim.x} * kThreads;
  const uintptr_t apart =
      reinterpret_cast<uintptr_t>(copy.to) ^ reinterpret_cast<uintptr_t>(copy.from);
  if (apart % sizeof(uint4) == 0)
    copy_words<uint4>(copy, thread, threads);
  else if (apart % sizeof(uint32_t) == 0)
    copy_words<uint32_t>(copy, thread, threads);
  else
    copy_words<unsigned char>(copy, thread, threads);
}

void launch(const Context& context, std::span<const PieceCopy> copies) {
  Pieces pieces{};
  size_t largest = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    pieces.copies[i] = copies[i];
    largest = std::max(largest, copies[i].bytes);
  }
  const size_t blocks =
      std::clamp((largest + kBlockBytes - 1) / kBlockBytes, size_t{1}, kMostBlocks / copies.size());
  copy_kernel<<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(copies.size())), kThreads,
                0, context.stream>>>(pieces);
  cuda_check(cudaGetLastError(), "copying pieces");
}

}  // namespace

RankStream::RankStream() { cuda_check(cudaGetDevice(&gpu_), "choosing a GPU"); }

void RankStream::reach(int other_gpu) {
  if (other_gpu == gpu_ || !reached_.insert(other_gpu).second) return;
  int can = 0;
  cuda_check(cudaDeviceCanAccessPeer(&can, gpu_, other_gpu), "asking for peer access");
  if (can == 0) return;
  const cudaError_t status = cudaDeviceEnablePeerAccess(other_gpu, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  cuda_check(status, "enabling peer access");
}

void copy_pieces(const Context& context, std::span<const PieceCopy> copies) {
  for (size_t first = 0; first < copies.size(); first += kMostPieces)
    launch(context, copies.subspan(first, std::min(kMostPieces, copies.size() - first)));
}

}  // namespace emblem::cuda
