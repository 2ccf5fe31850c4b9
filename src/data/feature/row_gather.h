// data/feature/row_gather.h - rows of several batches put together as a new one.
#pragma once

#include <cstdint>
#include <span>

#include "data/batch.h"

namespace emblem {

// Rows [begin, begin + count) of the source-th batch.
struct RowRun {
  uint32_t source = 0;
  uint32_t begin = 0;
  uint32_t count = 0;
};

// Overwrites the columns of `out` with the rows of `runs`, in their order. All sources have the
// same columns; a sparse column may have offsets or weights in some of them and not in others.
// Throws Error when a column of the result would have more values than offsets can count.
void gather_rows(std::span<const Batch* const> sources, std::span<const RowRun> runs, Batch& out);

}  // namespace emblem
