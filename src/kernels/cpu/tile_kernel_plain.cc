// Kernels for any CPU of the architecture.
#include "kernels/cpu/vector_tiles.h"

namespace emblem::cpu {

const TileKernel kPlainTiles = VectorTiles<4, 2, 4>::kernel("plain");

}  // namespace emblem::cpu
