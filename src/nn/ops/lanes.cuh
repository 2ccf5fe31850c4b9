// nn/ops/lanes.cuh - a warp that works on several elements of few columns at once.
#pragma once

#include "nn/ops/packet.cuh"

namespace emblem::cuda {

// The lanes of a warp as `count` groups of `lanes` lanes: each group works on another element, each
// lane of it on every lanes-th packet of the element's columns.
struct LaneGroups {
  int lanes, count;  // powers of two, lanes * count = 32
  __device__ explicit LaneGroups(int packets) {
    lanes = 1;
    while (lanes < packets && lanes < kWarp) lanes *= 2;
    count = kWarp / lanes;
  }
  __device__ int group() const { return static_cast<int>(threadIdx.x) / lanes; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % lanes; }
  // The sum over the lanes of a group, in each of them.
  __device__ float sum_of_group(float value) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      value += __shfl_xor_sync(~0u, value, distance);
    return value;
  }
  // The sum over equal lanes of all groups.
  __device__ float sum_over_groups(float value) const {
    for (int distance = lanes; distance < kWarp; distance *= 2)
      value += __shfl_xor_sync(~0u, value, distance);
    return value;
  }
};

__device__ inline float warp_max(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

// to = (or +=) values, kSize of them; nothing for Write::kNone.
template <int kSize, class T>
__device__ void write_packet(Write write, const float (&values)[kSize], T* to) {
  if (write == Write::kNone) return;
  Elements<T, kSize> packet{};
  if (write == Write::kAdd) packet = load_elements<kSize>(to);
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    packet.at[k] = narrow<T>(write == Write::kAdd ? widen(packet.at[k]) + values[k] : values[k]);
  }
  store_packet(to, packet);
}

// Calls body with how many columns can be taken at a time where rows have a or b columns.
template <class T, class Body>
void with_size_of_both(int64_t a, int64_t b, Body&& body) {
  with_size<T>(in_packets<T>(a) ? b : 1, std::forward<Body>(body));
}

}  // namespace emblem::cuda
