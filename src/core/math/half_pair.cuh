// core/math/half_pair.cuh - two 16-bit floats of a register in one instruction.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/half.h"

namespace emblem::cuda {

template <class T>
__device__ uint32_t narrow_two(float low, float high) {
  uint32_t both;
  if constexpr (std::is_same_v<T, Bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

template <class T>
__device__ uint32_t multiply_two(uint32_t a, uint32_t b) {
  uint32_t product;
  if constexpr (std::is_same_v<T, Bf16>)
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  else
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace emblem::cuda
