// embedding/find_keys.h - looks keys up in the arrays of an index, on the device where they lie.
#pragma once

#include "core/context.h"
#include "core/view.h"
#include "embedding/index_ref.h"

namespace emblem {

// values[i] = the value of keys[i], or 0xffffffff. `old` is the array that a growing index still
// empties; it has no groups otherwise. Asynchronous on CUDA.
void find_keys(const Context& context, IndexRef now, IndexRef old, View<const int64_t> keys,
               View<uint32_t> values);

namespace cpu {
void find_keys(const Context& context, IndexRef now, IndexRef old, View<const int64_t> keys,
               View<uint32_t> values);
}
namespace cuda {
void find_keys(const Context& context, IndexRef now, IndexRef old, View<const int64_t> keys,
               View<uint32_t> values);
}

}  // namespace emblem
