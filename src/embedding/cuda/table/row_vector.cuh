// embedding/cuda/table/row_vector.cuh - a lane's share of a row: one or four floats, read and
// written in one instruction.
#pragma once

#include <type_traits>

#include "core/math/half_pair.cuh"
#include "embedding/cuda/table/row_shape.h"
#include "embedding/rows_ref.h"

namespace emblem::cuda {

template <int kVector>
struct Floats {
  float at[kVector];
};

namespace detail {
// Loads that bypass L1: the data is not read again soon.
__device__ inline uint4 load16(const void* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ inline uint2 load8(const void* from) {
  uint2 v;
  asm volatile("ld.global.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(from));
  return v;
}
template <class W>
__device__ float widen(uint32_t bits) {
  W half;
  half.bits = static_cast<uint16_t>(bits);
  return half.to_float();
}
}  // namespace detail

template <int kVector, class W>
__device__ Floats<kVector> load_floats(const W* from) {
  Floats<kVector> v;
  if constexpr (kVector == 1) {
    v.at[0] = load_weight(from);
  } else if constexpr (sizeof(W) == 4) {
    const uint4 raw = detail::load16(from);
    v = {__uint_as_float(raw.x), __uint_as_float(raw.y), __uint_as_float(raw.z),
         __uint_as_float(raw.w)};
  } else {
    const uint2 raw = detail::load8(from);
    v = {detail::widen<W>(raw.x), detail::widen<W>(raw.x >> 16), detail::widen<W>(raw.y),
         detail::widen<W>(raw.y >> 16)};
  }
  return v;
}

template <int kVector, class W>
__device__ void store_floats(W* to, const Floats<kVector>& v) {
  if constexpr (kVector == 1) {
    store_weight(to, v.at[0]);
  } else if constexpr (sizeof(W) == 4) {
    *reinterpret_cast<float4*>(to) = {v.at[0], v.at[1], v.at[2], v.at[3]};
  } else {
    *reinterpret_cast<uint2*>(to) = {narrow_two<W>(v.at[0], v.at[1]),
                                     narrow_two<W>(v.at[2], v.at[3])};
  }
}

// Streaming stores of output that this kernel does not read again.
template <int kVector, class W>
__device__ void stream_floats(W* to, const Floats<kVector>& v) {
  if constexpr (kVector == 1 && sizeof(W) == 4)
    __stcs(to, v.at[0]);
  else if constexpr (kVector == 1)
    __stcs(reinterpret_cast<unsigned short*>(to), W::from(v.at[0]).bits);
  else if constexpr (sizeof(W) == 4)
    __stcs(reinterpret_cast<float4*>(to), float4{v.at[0], v.at[1], v.at[2], v.at[3]});
  else
    __stcs(reinterpret_cast<uint2*>(to),
           uint2{narrow_two<W>(v.at[0], v.at[1]), narrow_two<W>(v.at[2], v.at[3])});
}

// A row of which every lane of a group of kLanes holds kChunks vectors.
template <int kLanes_, int kVector_, int kChunks_>
struct Shape {
  static constexpr int kLanes = kLanes_, kVector = kVector_, kChunks = kChunks_;
  static constexpr int kFloats = kLanes * kVector * kChunks;  // rows that fit
};

// Calls body with the smallest shape that fits.
template <class Body>
void with_shape(RowShape shape, Body&& body) {
  switch (shape) {
    case RowShape::kUpTo16:
      return body(Shape<4, 4, 1>{});
    case RowShape::kUpTo64:
      return body(Shape<16, 4, 1>{});
    case RowShape::kUpTo128:
      return body(Shape<32, 4, 1>{});
    case RowShape::kUpTo1024:
      return body(Shape<32, 4, 8>{});
    case RowShape::kOddUpTo32:
      return body(Shape<32, 1, 1>{});
    case RowShape::kOddUpTo256:
      return body(Shape<32, 1, 8>{});
  }
}

}  // namespace emblem::cuda
