// embedding/cuda/update/deterministic_sum.h - a deterministic sum.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "core/math/exact_sum.h"

namespace emblem::cuda {

inline constexpr int kSumBlocks = 128;
inline constexpr int kSumDoubles = 1 + kSumBlocks;  // the sum and its parts

// sum[0] += the sum of `values`, in an order that depends on `count` alone. Asynchronous.
void add_in_order(const Context& context, const float* values, uint32_t count, double* sum);

// Adds `values`, none of them negative, to the limbs of an ExactSum in device memory. Asynchronous.
inline constexpr int kLimbs = static_cast<int>(ExactSum::kNotFinite) + 1;
void add_exactly(const Context& context, const float* values, uint32_t count, int64_t* limbs);

}  // namespace emblem::cuda
