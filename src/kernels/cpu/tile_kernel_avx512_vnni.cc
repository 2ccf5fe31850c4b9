// Compiled for AVX512-VNNI. Its instruction multiplies bytes without a sign by bytes with one: 128
// is added to all elements of the left matrix, and 128 times the sum of the right one's subtracted.
#if defined(__x86_64__)
#include "kernels/cpu/avx512_group_tiles.h"

namespace emblem::cpu {
namespace {

struct Int8Product {
  using Left = Int8Groups<0x80>;
  using Right = Int8Groups<0>;
  using Sum = __m512i;
  static constexpr bool kCorrects = true;

  static Sum dot(Sum sum, __m512i left, __m512i right) {
    return _mm512_dpbusd_epi32(sum, left, right);
  }
  static Sum correction(Sum sum, __m512i right) {
    return dot(sum, _mm512_set1_epi8(static_cast<char>(0x80)), right);
  }
  static __m512 to_floats(Sum sum, Sum correction) {
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, correction));
  }
};

}  // namespace

const TileKernel kAvx512VnniTiles = GroupTiles<Int8Product>::kernel("avx512_vnni", DType::kInt8);

}  // namespace emblem::cpu
#endif
