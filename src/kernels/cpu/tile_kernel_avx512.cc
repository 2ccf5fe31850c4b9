// Compiled with -mavx512f.
#include "kernels/cpu/vector_tiles.h"

#if defined(__x86_64__)
namespace emblem::cpu {

// 24 or 28 of 32 registers hold sums.
const TileKernel kAvx512Tiles = VectorTiles<16, 2, 12, 14>::kernel("avx512");

}  // namespace emblem::cpu
#endif
