// Compiled for AVX512-BF16.
#if defined(__x86_64__)
#include "kernels/cpu/avx512_group_tiles.h"

namespace emblem::cpu {
namespace {

struct Bf16Product {
  using Left = Bf16Groups;
  using Right = Bf16Groups;
  using Sum = __m512;
  static constexpr bool kCorrects = false;

  static Sum dot(Sum sum, __m512i left, __m512i right) {
    return _mm512_dpbf16_ps(sum, (__m512bh)left, (__m512bh)right);
  }
  static __m512 to_floats(Sum sum, Sum) { return sum; }
};

}  // namespace

const TileKernel kAvx512Bf16Tiles = GroupTiles<Bf16Product>::kernel("avx512_bf16", DType::kBf16);

}  // namespace emblem::cpu
#endif
