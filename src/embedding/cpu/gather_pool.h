// embedding/cpu/gather_pool.h - reads the rows of a feature's keys and pools them bag by bag.
#pragma once

#include <cstddef>

#include "core/device/context.h"
#include "core/memory/view.h"
#include "embedding/rows_ref.h"
#include "embedding/settings.h"

namespace emblem {

// out[b * out_stride + d] = the sum over the keys i of bag b of weight_i * row_i[d]; with kMean
// divided by the sum of the weights. A bag without keys, or with a mean over weights that sum to 0,
// becomes zeros.
struct GatherPool {
  RowsRef rows;
  const int64_t* keys = nullptr;          // [nnz]; the row numbers when row_numbers is null
  const uint32_t* row_numbers = nullptr;  // [nnz]; kNoRow reads as `absent`
  // With row_numbers: the address of the fp32 row with each number; none is null.
  const float* const* row_addresses = nullptr;
  // Instead of all three [nnz]: the address of each row in a RowFormat; null reads as `absent`.
  const std::byte* const* stored_rows = nullptr;
  const int32_t* offsets = nullptr;  // [bags + 1]; null: bag b is only key b
  const float* weights = nullptr;    // [nnz]; null: all 1
  int64_t bags = 0;
  Pooling pooling = Pooling::kSum;
  Initializer absent;
  uint64_t seed = 0;
  float* out = nullptr;
  int64_t out_stride = 0;  // floats from bag to bag
};

// Runs on the CPU (embedding/cuda/lookup/find_gather.h and update_rows.h do it on a GPU). Sums
// in the order of the keys.
void gather_pool(const Context& context, const GatherPool& op);

namespace cpu {
// The bags [begin, end) on the calling thread.
void gather_pool(const GatherPool& op, int64_t begin, int64_t end);
}  // namespace cpu
}  // namespace emblem
