// embedding/cuda/deterministic_sum.h - a sum that has the same bits at every run.
#pragma once

#include <cstdint>

#include "core/context.h"

namespace emblem::cuda {

inline constexpr int kSumBlocks = 128;
inline constexpr int kSumDoubles = 1 + kSumBlocks;  // the sum, and what it is made of

// sum[0] += the sum of `values`, in an order that depends on `count` alone. Asynchronous.
void add_in_order(const Context& context, const float* values, uint32_t count, double* sum);

}  // namespace emblem::cuda
