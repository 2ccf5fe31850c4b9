// model/lookup/key_arrays.h - small copies of keys and offsets on a model's device, with a CPU file
// and a CUDA file.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "embedding/lookup.h"

namespace emblem {

// to[b] = shift + the first key of bag b, for each bag. `to` has room for bags_of(keys).
void shift_offsets(const Context& context, const FeatureKeys& keys, int32_t shift, int32_t* to);

void fill(const Context& context, float value, int64_t count, float* to);

// to[b] = the first key of bag b; `missing` where it has none.
void first_keys(const Context& context, const FeatureKeys& keys, int64_t missing, int64_t* to);

// Adds the number of flags to counts[0], and the number of those that are 1 to counts[1].
void add_flags(const Context& context, View<const uint8_t> flags, int64_t* counts);

namespace cuda {
void shift_offsets(const Context& context, const FeatureKeys& keys, int32_t shift, int32_t* to);
void fill(const Context& context, float value, int64_t count, float* to);
void first_keys(const Context& context, const FeatureKeys& keys, int64_t missing, int64_t* to);
void add_flags(const Context& context, View<const uint8_t> flags, int64_t* counts);
}  // namespace cuda

}  // namespace emblem
