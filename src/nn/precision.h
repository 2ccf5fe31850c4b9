// nn/precision.h - what a graph does on a GPU around its ops: between fp32 and its 16-bit type, and
// the values of a step. CUDA builds only.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "core/math/half.h"
#include "nn/ops/op.h"

namespace emblem::cuda {

// *to = values, as they are now.
void set_step(const Context& context, const StepInputs& values, StepInputs* to);

void narrow_values(const Context& context, const float* from, DType type, void* to, int64_t count);
// Makes `rows` rows of `stride` elements, padded with zeros in both dimensions.
void narrow_matrix(const Context& context, Matrix<const float> from, DType type, void* to,
                   int64_t rows, int64_t stride);
// And back: rows of `stride` floats without the padding.
void copy_rows(const Context& context, const float* from, float* to, int64_t rows, int64_t cols,
               int64_t stride);

// row_of[e] for e < elements: the row whose elements, from offsets[row] on, e is one of; -1 from
// offsets[rows] on.
void find_rows(const Context& context, const int32_t* offsets, int64_t rows, int64_t elements,
               int32_t* row_of);

// Sets *overflow (unless null) to 1 where a value is infinite or not a number.
void widen_values(const Context& context, DType type, const void* from, float* to, int64_t count,
                  int* overflow);
void find_overflow(const Context& context, DType type, const void* values, int64_t count,
                   int* overflow);

}  // namespace emblem::cuda
