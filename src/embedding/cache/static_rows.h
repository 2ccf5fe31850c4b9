// embedding/cache/static_rows.h - the rows of a static table in pinned host memory, in the type
// that kernels compute in. CUDA builds only.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "core/math/half.h"
#include "embedding/settings.h"
#include "embedding/transfer/mapped_memory.h"

namespace emblem::cuda {

class StaticRows {
 public:
  // The settings' capacity is the number of rows. Row k is at data() + k * row_bytes.
  StaticRows(const TableSettings& settings, DType dtype, int64_t row_bytes);

  const char* data() const { return memory_.data(); }
  int64_t count() const { return count_; }

  // Initializes all rows as in a new table, on the GPU. Synchronous.
  void initialize(const Context& context);
  // Rows [first, first + count), of dim floats each.
  void set(int64_t first, const float* rows, int64_t count);

 private:
  int64_t count_, dim_, row_bytes_;
  DType dtype_;
  Initializer initializer_;
  uint64_t seed_;
  MappedMemory memory_;
};

// Bytes of a row in a cache or in StaticRows.
int64_t row_bytes_of(int64_t dim, DType dtype);

}  // namespace emblem::cuda
