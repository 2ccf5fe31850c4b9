// nn/ops/interaction/interaction.cuh - what both passes of an interaction share on a GPU.
#pragma once

#include "core/files/shared_memory.h"
#include "core/math/divide.h"
#include "nn/ops/interaction/interaction.h"
#include "nn/ops/launch.cuh"
#include "nn/ops/packet.cuh"

namespace emblem::cuda {

constexpr size_t kMostShared = kLeastSharedMemory;
constexpr size_t kSharedForOccupancy = 72 * 1024;  // so that three blocks share a multiprocessor

// The vectors of all rows.
template <class T>
struct Vectors {
  const T *first, *x;  // first is null where there is none
  int64_t rows;
  int count, dim;  // count includes the first

  __device__ int in_x() const { return first == nullptr ? count : count - 1; }
  __device__ const T* at(int64_t r, int v) const {
    if (first == nullptr) return x + (r * count + v) * dim;
    return v == 0 ? first + r * dim : x + (r * (count - 1) + v - 1) * dim;
  }
};

__device__ inline int first_pair_of(int i) { return i * (i - 1) / 2; }
__device__ inline int pair_of(int i, int j) {
  return i > j ? first_pair_of(i) + j : first_pair_of(j) + i;
}

template <int kWidth>
using Floats = Elements<float, kWidth>;

template <int kWidth, class T>
__device__ Floats<kWidth> load(const T* from) {
  const auto read = *reinterpret_cast<const Elements<T, kWidth>*>(from);
  Floats<kWidth> values;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) values.at[k] = widen(read.at[k]);
  return values;
}
template <int kWidth, class T>
__device__ void store(T* to, const Floats<kWidth>& values) {
  Elements<T, kWidth> written;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) written.at[k] = narrow<T>(values.at[k]);
  *reinterpret_cast<Elements<T, kWidth>*>(to) = written;
}

// Where the gradients of the vectors go. Those of the first are written before those of x, which
// may be the same.
template <class T>
struct Targets {
  T *first, *x;
  Write write_first, write_x;
};

// Warps of a block whose memory is `bytes` each: up to `most`.
inline unsigned warps_of(size_t bytes, size_t most) {
  return static_cast<unsigned>(std::clamp<size_t>(kSharedForOccupancy / bytes, 1, most));
}

}  // namespace emblem::cuda
