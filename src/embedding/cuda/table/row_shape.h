// embedding/cuda/table/row_shape.h - how the lanes of a warp share a row.
#pragma once

#include <cstdint>
#include <string>

#include "emblem/error.h"

namespace emblem::cuda {

// Shapes by dimension. Odd: rows cannot be accessed in vectors of four floats, because of the
// dimension or a column.
enum class RowShape { kUpTo16, kUpTo64, kUpTo128, kUpTo1024, kOddUpTo32, kOddUpTo256 };

inline RowShape shape_of(const std::string& table, int64_t dim, bool in_fours) {
  EMBLEM_REQUIRE(
      dim <= (in_fours ? 1024 : 256), "table ", table, ": dimension ", dim,
      " is more than a GPU table supports (1024, or 256 when it is not a multiple of 4)");
  if (!in_fours) return dim <= 32 ? RowShape::kOddUpTo32 : RowShape::kOddUpTo256;
  return dim <= 16    ? RowShape::kUpTo16
         : dim <= 64  ? RowShape::kUpTo64
         : dim <= 128 ? RowShape::kUpTo128
                      : RowShape::kUpTo1024;
}

}  // namespace emblem::cuda
