// embedding/cpu/initialize_rows.h - initial values of rows, a function of (seed, key, position).
#pragma once

#include "core/device/context.h"
#include "embedding/row_share.h"
#include "embedding/rows_ref.h"
#include "embedding/settings.h"

namespace emblem {

struct InitializeRows {
  RowsRef rows;
  const uint32_t* row_numbers =
      nullptr;                    // [count]; null: rows first_row, first_row + 1, ... of a static
  const int64_t* keys = nullptr;  // table, which have the keys of `held`. kNoRow is skipped.
  PartRange held;
  int64_t first_row = 0;
  int64_t count = 0;
  Initializer initializer;
  uint64_t seed = 0;
  float state = 0.0f;  // every float of optimizer state
  int64_t state_floats = 0;
};

// Runs on the CPU.
void initialize_rows(const Context& context, const InitializeRows& op);

namespace cpu {
// The rows [begin, end) of op on the calling thread.
void initialize_rows(const InitializeRows& op, int64_t begin, int64_t end);
}  // namespace cpu
}  // namespace emblem
