// nn/packet.cuh - 16 bytes of a row at a time.
#pragma once

#include "nn/launch.cuh"

namespace emblem::cuda {

// As many elements as 16 bytes hold.
template <class T>
struct alignas(16) Packet {
  static constexpr int kSize = 16 / sizeof(T);
  T at[kSize];
};

template <class T>
__device__ Packet<T> load_packet(const T* from) {
  return *reinterpret_cast<const Packet<T>*>(from);
}
template <class T>
__device__ void store_packet(T* to, const Packet<T>& values) {
  *reinterpret_cast<Packet<T>*>(to) = values;
}

// Whether rows of `cols` elements can be read in packets.
template <class T>
bool in_packets(int64_t cols) {
  return cols % Packet<T>::kSize == 0;
}

// The sums over threadIdx.y of a packet of columns, written by threads with y = 0.
template <int kSize>
__device__ void store_sums(const float (&sums)[kSize], bool inside, float* to) {
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float sum = sum_over_y(sums[k]);
    if (threadIdx.y == 0 && inside) to[k] = sum;
  }
}

// Blocks that cover `cols` columns in packets, for each group of rows.
template <class T>
dim3 packet_blocks(int64_t cols, int64_t groups) {
  return column_blocks(cols / Packet<T>::kSize, groups);
}

}  // namespace emblem::cuda
