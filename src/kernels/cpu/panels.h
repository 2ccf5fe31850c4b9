// kernels/cpu/panels.h - panels of floats, as fp32 kernels read them.
#pragma once

#include "kernels/cpu/tile_kernel.h"

namespace emblem::cpu {

// TileKernel::pack with a depth of 1.
void pack_floats(const Lines& lines, int64_t width, std::byte* to);

typedef float Four __attribute__((vector_size(16)));

inline Four load_four(const float* from) {
  Four value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

struct FourByFour {
  Four rows[4];
};
// Their transpose.
inline FourByFour transposed(Four a, Four b, Four c, Four d) {
  const Four ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5),
             ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7),
             bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5),
             bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  return {{__builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5),
           __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7),
           __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5),
           __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7)}};
}

// The transpose of the 4 x 4 floats whose rows are `stride` apart.
inline FourByFour load_transposed(const float* from, int64_t stride) {
  return transposed(load_four(from), load_four(from + stride), load_four(from + 2 * stride),
                    load_four(from + 3 * stride));
}

}  // namespace emblem::cpu
