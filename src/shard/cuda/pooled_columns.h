// shard/cuda/pooled_columns.h - vectors of bags between messages of their owners and the columns of
// an output: the kernels. Asynchronous.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "core/memory/any_view.h"

namespace emblem::cuda {

// A column of all owners' vectors. Messages are [bags, width] of each owner, one after the other.
struct PooledColumn {
  int32_t out;    // the column of the output
  int32_t first;  // the first column of its owner
  int32_t width;  // width of its owner
};

// `columns` are in device memory, `count` of them; `vectors` have bags * count elements.
void vectors_to_columns(const Context& context, const PooledColumn* columns, int32_t count,
                        ConstAnyView vectors, AnyView out);
void columns_to_vectors(const Context& context, const PooledColumn* columns, int32_t count,
                        ConstAnyView gradients, AnyView vectors);

}  // namespace emblem::cuda
