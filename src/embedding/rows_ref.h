// embedding/rows_ref.h - the rows of a table as kernels see them: trivially copyable, for one
// device.
#pragma once

#include <cstdint>

#include "core/device/host_device.h"
#include "core/math/half.h"

namespace emblem {

// The row number of a key that has no row.
inline constexpr uint32_t kNoRow = 0xffffffffu;

// A row is `dim` weights of type `dtype`, then (at state_offset) its optimizer state in fp32.
struct RowsRef {
  char* const* slabs = nullptr;  // each holds 1 << slab_shift rows
  int slab_shift = 0;
  int64_t stride = 0;        // bytes from row to row
  int64_t state_offset = 0;  // bytes from weights to state
  int64_t dim = 0;
  DType dtype = DType::kF32;

  EMBLEM_HD char* row(uint64_t row) const {
    return slabs[row >> slab_shift] + (row & ((uint64_t{1} << slab_shift) - 1)) * stride;
  }
  EMBLEM_HD float* state(char* row) const { return reinterpret_cast<float*>(row + state_offset); }
};

// Read and write a weight of any storage type.
EMBLEM_HD inline float load_weight(const float* at) { return *at; }
EMBLEM_HD inline float load_weight(const F16* at) { return at->to_float(); }
EMBLEM_HD inline float load_weight(const Bf16* at) { return at->to_float(); }
EMBLEM_HD inline void store_weight(float* at, float value) { *at = value; }
EMBLEM_HD inline void store_weight(F16* at, float value) { *at = F16::from(value); }
EMBLEM_HD inline void store_weight(Bf16* at, float value) { *at = Bf16::from(value); }

// Calls body(T{}) with the storage type of `dtype`.
template <class Body>
decltype(auto) with_weight_type(DType dtype, Body&& body) {
  if (dtype == DType::kF16) return body(F16{});
  if (dtype == DType::kBf16) return body(Bf16{});
  return body(float{});
}

}  // namespace emblem
