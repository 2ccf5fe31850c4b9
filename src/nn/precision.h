// nn/precision.h - between fp32 and a graph's 16-bit type, in device memory. CUDA builds only.
#pragma once

#include <cstdint>

#include "core/context.h"
#include "core/half.h"

namespace emblem::cuda {

void narrow_values(const Context& context, const float* from, DType type, void* to, int64_t count);

// Sets *overflow (unless null) to 1 where a value is infinite or not a number.
void widen_values(const Context& context, DType type, const void* from, float* to, int64_t count,
                  int* overflow);
void find_overflow(const Context& context, const float* values, int64_t count, int* overflow);

}  // namespace emblem::cuda
