// nn/ops/mma.cuh - products on tensor cores, spread over the registers of a warp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/half.h"

namespace emblem::cuda {

// sums [16, 8] += left [16, 16] right [16, 8]. A lane holds, of rows lane / 4 and lane / 4 + 8 of
// the left matrix and of column lane / 4 of the right one, elements of the inner dimension; which
// ones does not matter as long as they are the same on both sides.
template <class T>
__device__ inline void multiply_tile(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                     uint32_t a3, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// The same over 32 elements of the inner dimension, of which a lane holds 8 in each register.
template <class T>
__device__ inline void multiply_wide(float (&sums)[4], const uint4& top, const uint4& bottom,
                                     const uint4& right) {
  multiply_tile<T>(sums, top.x, bottom.x, top.y, bottom.y, right.x, right.y);
  multiply_tile<T>(sums, top.z, bottom.z, top.w, bottom.w, right.z, right.w);
}

}  // namespace emblem::cuda
