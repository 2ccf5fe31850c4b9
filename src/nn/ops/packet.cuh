// nn/ops/packet.cuh - 16 bytes of a row at a time.
#pragma once

#include "nn/ops/launch.cuh"

namespace emblem::cuda {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Elements {
  static constexpr int kSize = kCount;
  T at[kCount];
};
// As many as 16 bytes hold.
template <class T>
using Packet = Elements<T, 16 / sizeof(T)>;

template <int kCount, class T>
__device__ Elements<T, kCount> load_elements(const T* from) {
  return *reinterpret_cast<const Elements<T, kCount>*>(from);
}
template <class T>
__device__ Packet<T> load_packet(const T* from) {
  return load_elements<Packet<T>::kSize>(from);
}
template <class T, int kCount>
__device__ void store_packet(T* to, const Elements<T, kCount>& values) {
  *reinterpret_cast<Elements<T, kCount>*>(to) = values;
}

// Whether rows of `cols` elements can be read in packets.
template <class T>
bool in_packets(int64_t cols) {
  return cols % Packet<T>::kSize == 0;
}

// Calls body with how many elements of a row of `cols` can be taken at a time.
template <class T, class Body>
void with_size(int64_t cols, Body&& body) {
  if (in_packets<T>(cols))
    body(std::integral_constant<int, Packet<T>::kSize>{});
  else
    body(std::integral_constant<int, 1>{});
}

// to = (or +=) f(k), for elements k.
template <int kCount, class T, class F>
__device__ void put_elements(Write write, T* to, F&& f) {
  if (write == Write::kNone) return;
  Elements<T, kCount> out{};
  if (write == Write::kAdd) out = load_elements<kCount>(to);
#pragma unroll
  for (int k = 0; k < kCount; ++k) put<true>(out.at[k], f(k));
  store_packet(to, out);
}

// One packet per thread.
template <int kSize, class Body>
__global__ void __launch_bounds__(kThreads) each_packet_kernel(int64_t count, Body body) {
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  if (begin + kSize <= count) {
    body.template run<kSize>(begin);
  } else {
    for (int64_t i = begin; i < count; ++i) body.template run<1>(i);
  }
}

// Calls body.run<kSize>(i) for packets of elements of type T, and run<1>(i) for those after them.
template <class T, class Body>
void for_each_packet(const Context& context, int64_t count, const Body& body) {
  if (count == 0) return;
  constexpr int kSize = Packet<T>::kSize;
  each_packet_kernel<kSize>
      <<<blocks_of(count, kSize * kThreads), kThreads, 0, context.stream>>>(count, body);
  check_launch("launching a kernel of packets");
}

}  // namespace emblem::cuda
