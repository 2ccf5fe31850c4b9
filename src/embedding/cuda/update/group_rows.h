// embedding/cuda/update/group_rows.h - groups the occurrences of a batch by distinct row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/context.h"

namespace emblem::cuda {

struct BatchRef;

// After marking: lays out a segment for each distinct row, fills it with its occurrences, and
// advances the clocks of the tables. Asynchronous.
void group_rows(const Context& context, const BatchRef& batch);

// The same with the occurrences of each row in the order of their positions. `scratch` has
// sorting_bytes(positions) bytes.
void sort_rows(const Context& context, const BatchRef& batch, void* scratch, size_t bytes);
size_t sorting_bytes(int64_t positions);
// Afterwards: the position of each occurrence.
const uint32_t* sorted_positions(const BatchRef& batch, const void* scratch);

}  // namespace emblem::cuda
