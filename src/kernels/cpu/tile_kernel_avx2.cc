// Compiled with -mavx2 -mfma.
#include "kernels/cpu/vector_tiles.h"

#if defined(__x86_64__)
namespace emblem::cpu {

// 12 of 16 registers hold sums.
const TileKernel kAvx2Tiles = VectorTiles<8, 2, 6>::kernel("avx2");

}  // namespace emblem::cpu
#endif
